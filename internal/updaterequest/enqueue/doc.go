// Package enqueue stores the work that generate and mutate-existing rules request, as UpdateRequests.
//
//	w := enqueue.New(enqueue.Options{API: updaterequest.NewAPI(client), Namespace: "kyverno", Threshold: threshold, …})
//	w.Reconcile(ctx)                                // of a row: retries the writes that did not succeed in time
//	warnings := w.Write(ctx, request, outcome.Work) // before the request is answered
//
// The name of an UpdateRequest is derived from the policy and the trigger, so writing is idempotent: another request for the same work
// raises the generation of the existing one, unless a rule reads of the earlier request what the later one does not have. It holds the
// policy, the rules, the trigger, the requester and the request itself, so that
// the worker can evaluate the rules again without further information. Contents of Secrets are not copied.
//
// No work is dropped silently. Work that cannot be written before the request times out, or that exceeds the threshold, waits in a bounded
// set and is written as soon as possible. The requester gets a warning, and events and counters report the delay.
//
// The package does not execute work (package execute does), and does not watch policies (package follow does).
//
// Floor 7: imports updaterequest and the floors below.
package enqueue
