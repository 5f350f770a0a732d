// Package ephemeral carries results to the reports controller that its scans do not find: those of admission and of work in
// the background. They travel as EphemeralReports and ClusterEphemeralReports, which the
// reports controller takes into its reports and deletes.
//
//	w := ephemeral.New(ephemeral.Options{Store: ephemeral.NewStore(client, ephemeral.Admission, max), View: view, …})
//	go w.Run(ctx)
//	w.Put(request, results) // after the answer; never waits
//
// Sends decides who reports what: a rule that scans evaluate is left to them. View is what is known of the reports
// controller, from the annotation that it keeps on its Lease: which kinds it scans, and whether it is there at all.
// Results wait a moment in memory, so that those of one resource are one object; number and bytes of what waits, and
// the number of objects, are bounded.
//
// The package evaluates nothing and merges nothing into reports (package reports does).
//
// Floor 6: imports floors 0–5 and package report.
package ephemeral
