// Package enqueue writes the work that generate and mutate-existing rules ask for as UpdateRequests.
//
//	w := enqueue.New(enqueue.Options{API: updaterequest.NewAPI(client), Namespace: "kyverno", Threshold: threshold, …})
//	go w.Run(ctx)                                   // writes later what could not be written in time
//	warnings := w.Keep(ctx, request, outcome.Work)  // before the request is answered
//
// The name of an UpdateRequest is derived from the policy and the trigger, so writing is idempotent: another request for the same work
// raises the generation of the existing one. It holds the policy, the rules, the trigger, the requester and the request itself: the worker
// evaluates the rules again and needs nothing else. The contents of Secrets are not copied.
//
// No work is dropped silently. Work that cannot be written within the time of the request, or that exceeds the threshold, waits in a
// bounded set and is written as soon as possible; the requester gets a warning, and events and counters report it.
//
// The package does not execute work (execute does), and does not watch policies (follow does).
//
// Floor 7: imports updaterequest and the floors below.
package enqueue
