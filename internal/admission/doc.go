// Package admission is the HTTPS server that the API server calls to review requests.
//
//	s := admission.New(admission.Options{…}, catalog.Snapshot, &settings, root, cluster)
//	err := s.Run(ctx, listener)   // serves until ctx is done, then drains
//
// A review is decoded once, in one pass, into a policy.Request. The URL path selects a row of a table, with the stages to run and the
// policies that take part. Rules whose effective action is Enforce are evaluated before the answer; the others afterwards, on a bounded
// queue, with their results in the log.
//
// A review that panics, or that cannot be answered, is an HTTP error: the API server then applies the webhook's failurePolicy, and the
// process continues.
//
// The package compiles nothing and knows no rule kind. Package policyreview reviews policies and related kinds; policies.go passes their
// requests to it.
//
// Floor 7: imports policyreview and the floors below.
package admission
