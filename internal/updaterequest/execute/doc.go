// Package execute executes UpdateRequests: it reads the trigger, evaluates the rules again (engine.Input.Plan) and writes exactly the
// result.
//
//	worker := execute.NewWorker(execute.WorkerOptions{Client: client, Made: objects, Snapshot: catalog.Snapshot, Root: root, …})
//	again, err := worker.Reconcile(ctx, name)       // of a row in every replica; Share assigns each its part
//
// A Worker passes each UpdateRequest through four parts, in one direction. do_*.go are its executors, one for each kind of work.
//
//	Worker.Reconcile ── one task for each rule and trigger; it locks the key and holds it in the ring
//	   │
//	reader    reads the trigger, and makes the request of the evaluation              reader.go reads.go request.go hops.go
//	   │ policy.Request
//	Planner   checks that the trigger is proved; evaluates; finds what is obsolete    planner.go sources.go
//	   │ policy.Outcome, origin.Object
//	applier   writes, and records what it wrote                                       applier.go mutate.go
//	   │ error
//	finisher  removes, divides or retries the UpdateRequest                           finisher.go divide.go written.go
//
// The reporter beside them sends events and results. The reader and the Planner change nothing; only the applier and origin.Objects write
// objects of users, and only the finisher writes UpdateRequests.
//
// Late and repeated writes do no harm: a write creates an object whose name is derived from the policy and the trigger, or it
// includes the UID and resourceVersion of the read on which it is based. The worker deletes and changes only objects whose mark or entry in
// the record proves that the rule generated them (package origin).
//
// The package does not assign work to replicas (Share does), and does not watch UpdateRequests: their watcher calls Worker.Add.
//
// Floor 7: imports updaterequest, updaterequest/origin and the floors below.
package execute
