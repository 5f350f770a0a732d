// Package v1alpha2 holds the Go form of the wgpolicyk8s.io/v1alpha2 API of the Kubernetes policy working group:
// PolicyReport and ClusterPolicyReport, which say what the policies make of one resource.
//
//	var report policyreport.PolicyReport
//	err := client.Get(ctx, types.NamespacedName{Namespace: "default", Name: uid}, &report)
//	for _, r := range report.Results { … r.Policy, r.Rule, r.Result … }
//
// It imports nothing of Ephor.
//
// +kubebuilder:object:generate=true
// +groupName=wgpolicyk8s.io
package v1alpha2
