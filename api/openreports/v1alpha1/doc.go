// Package v1alpha1 holds the Go form of the openreports.io/v1alpha1 API: Report and ClusterReport, which say what the
// policies make of one resource. They are what PolicyReport and ClusterPolicyReport (package policyreport/v1alpha2) became
// under another name, and hold the same.
//
//	var report openreports.Report
//	err := client.Get(ctx, types.NamespacedName{Namespace: "default", Name: uid}, &report)
//	for _, r := range report.Results { … r.Policy, r.Rule, r.Result … }
//
// It imports nothing of Ephor.
//
// +kubebuilder:object:generate=true
// +groupName=openreports.io
package v1alpha1
