// Package impact computes what policies would have done to recorded requests.
//
//	kinds := impact.NewKinds(nil)
//	after, err := impact.NewReplica(programs, impact.Options{Kinds: kinds})
//	for record := range impact.Reviews("requests.jsonl", file) { … }
//	verdict, err := after.Answer(ctx, request)
//
// A Replica sends a request through the webhooks that the policies would have, in the order of the API server: mutating webhooks one after
// the other, each with the object that the previous one returned, then the validating ones. The answers come from the functions of package
// admission that also answer the API server, so the package does not evaluate rules itself. Run evaluates many requests by the given policies
// and by the policies in force, and Collector counts the differences. Report.Lacks lists what the records do not show; it is never guessed.
//
// It writes nothing, and looks things up only with the lookups that it is given.
//
// Floor 7: imports admission, decision, webhookconf, rollout, patch and celrule.
package impact
