// Package execute executes UpdateRequests: it reads the trigger, evaluates the rules again (engine.Input.Plan) and writes exactly the
// result. do_*.go are its executors.
//
//	worker := execute.NewWorker(execute.WorkerOptions{Client: client, Snapshot: catalog.Snapshot, Root: root, …})
//	go worker.Run(ctx)                              // in every replica; Share gives each its part
//
// Every write is harmless when it is late or repeated: it creates under a name that follows from the policy and the trigger, or it
// carries the UID and resourceVersion of the read that decided it. The worker deletes and changes only objects whose mark proves
// that the rule made them.
//
// The package does not decide whose work is whose (Share does), and does not watch UpdateRequests: their watcher calls Worker.Add.
//
// Floor 7: imports updaterequest and the floors below.
package execute
