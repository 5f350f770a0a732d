// Package compliance counts what the policy reports of a cluster say: by policy, by namespace and by severity. It is pure:
// no clock, no cluster, no files. `ephor report` and the dashboard show the same Summary.
//
//	c := compliance.New(compliance.Options{Keep: 1000})
//	for _, object := range objects { // PolicyReports, ClusterPolicyReports, Reports, ClusterReports
//		report, diags := compliance.Decode(object)
//		…
//		c.Add(report)
//	}
//	summary := c.Summary(nil)
//
// Memory grows with the number of policies times namespaces, and with the results that are kept, not with that of reports.
//
// What the reports say is hostile text: whoever may create a resource names it, and a report may come from anybody. Nothing
// here prints; what prints escapes (package cli).
//
// It makes no reports (package report does) and judges nothing.
//
// Floor 6: imports api and floor 0.
package compliance
