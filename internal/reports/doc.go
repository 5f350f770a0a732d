// Package reports keeps the policy reports of a cluster: one PolicyReport or ClusterPolicyReport for each resource, named
// by the resource's UID and owned by it, that holds what the rules say of it.
//
//	w := reports.New(reports.Options{Client: client, Metadata: client, Again: scanner.Again, …})
//	go w.Run(ctx, ready)
//	changed, err := w.Put(ctx, outcome, evaluated) // what scans find
//	changed, err := w.Add(ctx, resource, results) // what was found elsewhere
//
// A report is written only when what it says changes: times alone are no change. Put replaces what scans found of the
// evaluated policies, and leaves what Add put beside it. Reports that another client changes or deletes are
// noticed, and Again is asked for what they should say. What is kept of a report is the version that was written, and a
// hash of what it says for each policy. Reports are PolicyReports of wgpolicyk8s.io, or Reports of openreports.io
// (Form).
//
// The package evaluates nothing (package scan does) and words nothing (package report does).
//
// Floor 7: imports floors 0–6.
package reports
