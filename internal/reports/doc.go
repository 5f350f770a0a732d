// Package reports keeps the policy reports of a cluster: one PolicyReport or ClusterPolicyReport for each resource, named
// by the resource's UID and owned by it, that holds what the rules say of it.
//
//	w := reports.New(reports.Options{Client: client, Metadata: client, Again: scanner.Again, …})
//	go w.Run(ctx, ready)
//	changed, err := w.Put(ctx, outcome, evaluated) // what scans find
//	changed, err := w.Add(ctx, resource, results) // what was found elsewhere
//
// A report is written only when its content changes: times alone are no change. Put replaces the scan results of the evaluated policies,
// and leaves results of Add beside them. If another client changes or deletes a report, Again is called to evaluate its resource again. The
// state that is kept of a report is its written version, and a hash of its results for each policy. Reports are PolicyReports of
// wgpolicyk8s.io, or Reports of openreports.io (Form).
//
// The package evaluates nothing (package scan does) and words nothing (package report does).
//
// Floor 7: imports floors 0–6.
package reports
