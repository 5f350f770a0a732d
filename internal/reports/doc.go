// Package reports maintains the policy reports of a cluster: one PolicyReport or ClusterPolicyReport for each resource, named by the
// resource's UID and owned by it, with the results of the rules for this resource.
//
//	w := reports.New(reports.Options{Client: client, Metadata: client, Again: scanner.Again, …})
//	row := controller.Row{Name: "reports", Sources: w.Sources()}
//	changed, err := w.Put(ctx, outcome, evaluated) // results of scans
//	changed, err := w.Add(ctx, resource, results) // results of other processes
//
// It writes a report only when its content changes, not for times alone. Put replaces the scan results of the evaluated policies, and keeps
// results of Add. If another client changes or deletes a report, Again is called to evaluate its resource again. For each report, it
// remembers the written version, and a hash of its results for each policy. Reports are PolicyReports of wgpolicyk8s.io, or Reports of
// openreports.io (Form).
//
// The package evaluates nothing (package scan does) and formats no messages (package report does).
//
// Floor 7: imports floors 0–6.
package reports
