// Package ephemeral sends the reports controller the results that its scans do not find: those of admission and of work in
// the background. They are stored in EphemeralReports and ClusterEphemeralReports, which the reports controller merges into
// its reports and deletes.
//
//	w := ephemeral.New(ephemeral.Options{Store: ephemeral.NewStore(client, ephemeral.Admission, max), View: view, …})
//	go w.Run(ctx)
//	w.Put(request, results) // after the answer; never waits
//
// Sends decides who reports what: results of a rule that scans evaluate are left to them. View is what is known of the
// reports controller, from the annotation on its Lease: which kinds it scans, and whether it exists at all. Results wait
// for a moment in memory, so that those of one resource are written to one object. The number and bytes of waiting results,
// and the number of objects, are bounded.
//
// The package evaluates nothing and merges nothing into reports (package reports does).
//
// Floor 6: imports floors 0–5 and package report.
package ephemeral
