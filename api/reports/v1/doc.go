// Package v1 holds the Go form of the reports.kyverno.io/v1 API: EphemeralReport and ClusterEphemeralReport, in which
// results travel from the process that found them to the one that writes the policy reports.
//
//	report := reportsv1.EphemeralReport{Spec: reportsv1.EphemeralReportSpec{Results: results}}
//
// It imports nothing of Ephor but the form of results.
//
// +kubebuilder:object:generate=true
// +groupName=reports.kyverno.io
package v1
