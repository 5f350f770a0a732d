// Package impact evaluates what policies would have done to recorded requests.
//
//	kinds := impact.NewKinds(nil)
//	after, err := impact.NewReplica(programs, impact.Options{Kinds: kinds})
//	for record := range impact.Reviews("requests.jsonl", file) { … }
//	verdict, err := after.Answer(ctx, request)
//
// A Replica sends a request through the webhooks that the policies would have, in the order of the API server: mutating webhooks one after
// the other, each with the object that the last one left, then the validating ones. The answers come from package admission, from the
// functions that answer the API server; the package has no evaluation of its own. Run evaluates many requests by policies, and by the
// policies in force next to them, and Collector counts the differences. What a record does not tell is listed in Report.Lacks, never
// guessed.
//
// It writes nothing, and looks things up only with the lookups that it is given.
//
// Floor 7: imports admission, decision, webhookconf, rollout, patch and celrule.
package impact
