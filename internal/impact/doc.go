// Package impact says what policies would have done to requests that were recorded.
//
//	kinds := impact.NewKinds(nil)
//	after, err := impact.NewReplica(programs, impact.Options{Kinds: kinds})
//	for record := range impact.Reviews("requests.jsonl", file) { … }
//	verdict, err := after.Answer(ctx, request)
//
// A Replica sends a request through the webhooks that the policies would have, in the order of the API server: mutating webhooks one after
// the other, each with the object that the last one left, then the validating ones. The answers come from package admission, by the
// functions that answer the API server; the package has no evaluation of its own. Run evaluates many requests by policies, and by the
// policies in force beside them, and Collector counts what differs. What cannot be known from a record is listed in Report.Lacks, never
// guessed.
//
// It writes nothing, and asks the world only through the lookups that it is given.
//
// Floor 7: imports admission, decision, webhookconf, rollout, patch and celrule.
package impact
