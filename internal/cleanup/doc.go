// Package cleanup executes cleanup policies: it follows their schedules, lists the resources that they match, and deletes those that meet
// their conditions.
//
//	c := cleanup.New(options)
//	c.Set(policy, program)   // called by package intake
//	row := c.Row()       // of every replica; Share decides its part
//
//	plan, err := executor.Plan(ctx, program) // what a run would delete now; `ephor cleanup preview` prints it
//
// A run is planned as a whole before the first deletion, so that a limit stops it in time. Every deletion has the UID and resourceVersion
// on which the decision was based: a changed object is evaluated again, and a new one with the same name is left alone.
//
// It does not compile or review policies, and does not handle TTL labels.
//
// Floor 7: imports webhookconf for what the API server serves, event, compile and engine.
package cleanup
