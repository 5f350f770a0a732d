// Package admission is the HTTPS server that the API server asks about requests.
//
//	s := admission.New(admission.Options{…}, catalog.Snapshot, &settings, root, cluster)
//	err := s.Run(ctx, listener)   // serves until ctx is done, then drains
//
// A review is decoded once, in one pass, straight into a policy.Request; the URL path is a row in a table that says
// which stages to run and which policies take part. Rules whose effective action is Enforce are evaluated before the
// answer; the others afterwards, on a bounded queue, with their results in the log.
//
// A review that panics, or that cannot be answered, is an HTTP error: the API server then applies the webhook's
// failurePolicy, and the process lives on.
//
// The package compiles nothing and knows no rule kind. Package policyreview reviews policies and what belongs to them; policies.go
// hands it their requests.
//
// Floor 7: imports policyreview and the floors below.
package admission
