// Package updaterequest keeps the work that generate and mutate-existing rules ask for as UpdateRequests
// (kyverno.io/v2), until it is carried out.
//
//	w := updaterequest.New(updaterequest.Options{API: updaterequest.NewAPI(client), Namespace: "kyverno", Threshold: threshold, …})
//	go w.Run(ctx)                                   // writes later what could not be written in time
//	warnings := w.Keep(ctx, request, outcome.Work)  // before the request is answered
//
// There is one UpdateRequest for each policy and trigger (and one more for each where the request is about an object that
// was made for the trigger, or that is copied). Its name is made of the two, so that writing is idempotent: a
// request that asks for the same work again raises the generation of the one that is there. It holds the policy, the
// rules, the trigger, the requester and the request itself: the worker evaluates the rules again and needs
// nothing else.
//
// Work is never passed over in silence. What could not be written within the time of the request, or would be more than
// the threshold, waits in a bounded set and is written as soon as that is possible; the requester is warned, and events
// and counters tell. The contents of Secrets are not copied into UpdateRequests.
//
// A Worker carries UpdateRequests out: it reads the trigger, evaluates the rules again (engine.Input.Plan) and writes exactly what
// comes out of it. do_*.go are its executors. A Follower makes work of changes of policies.
//
//	worker := updaterequest.NewWorker(updaterequest.WorkerOptions{Client: client, Snapshot: catalog.Snapshot, Root: root, …})
//	go worker.Run(ctx)                              // in every replica; Share tells each its part
//
// Every write is harmless when it is late or repeated: it creates under a name that follows from the policy and the trigger, or it carries
// the UID and resourceVersion of the read that decided it.
//
// The package does not decide whose work is whose (Share does), and does not watch UpdateRequests: their watcher calls Worker.Add.
//
// Floor 7: imports the floors below and nothing of its own floor.
package updaterequest
