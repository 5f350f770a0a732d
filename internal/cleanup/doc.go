// Package cleanup carries cleanup policies out: it waits for their schedules, lists what they match, and deletes what
// meets their conditions.
//
//	c := cleanup.New(options)
//	c.Set(policy, program)   // from the intake
//	c.Run(ctx)           // in every replica; Share decides its part
//
//	plan, err := executor.Plan(ctx, program) // what a run would delete now; `ephor cleanup preview` prints it
//
// A run is planned as a whole before anything is deleted, so that a limit stops it before its first deletion. Every
// deletion carries the UID and the resourceVersion that the decision was made on: an object that changed is evaluated
// again, and another one of the same name is left alone.
//
// It does not compile or review policies, and has nothing to do with TTL labels.
//
// Floor 7: imports webhookconf for what the API server serves, event, compile and engine.
package cleanup
