// Package execute executes UpdateRequests: it reads the trigger, evaluates the rules again (engine.Input.Plan) and writes exactly the
// result. do_*.go are its executors.
//
//	worker := execute.NewWorker(execute.WorkerOptions{Client: client, Snapshot: catalog.Snapshot, Root: root, …})
//	go worker.Run(ctx)                              // in every replica; Share assigns each its part
//
// Late and repeated writes do no harm: a write creates an object whose name is derived from the policy and the trigger, or it
// includes the UID and resourceVersion of the read on which it is based. The worker deletes and changes only objects whose mark
// proves that the rule generated them.
//
// The package does not assign work to replicas (Share does), and does not watch UpdateRequests: their watcher calls Worker.Add.
//
// Floor 7: imports updaterequest and the floors below.
package execute
