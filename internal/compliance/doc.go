// Package compliance counts the results in the policy reports of a cluster: by policy, by namespace and by severity. It is
// pure: no clock, no cluster, no files. `ephor report` and the dashboard show the same Summary.
//
//	c := compliance.New(compliance.Options{Keep: 1000})
//	for _, object := range objects { // PolicyReports, ClusterPolicyReports, Reports, ClusterReports
//		report, diags := compliance.Decode(object)
//		…
//		c.Add(report)
//	}
//	summary := c.Summary(nil)
//
// Memory grows with the number of policies times namespaces, and with the number of results that are kept, not with the
// number of reports.
//
// The text of reports is untrusted: a user who may create a resource chooses its name, and any user with the right may
// write a report. This package does not print; code that prints must also escape (package cli).
//
// It makes no reports (package report does) and evaluates nothing.
//
// Floor 6: imports api, floor 0 and policy.
package compliance
