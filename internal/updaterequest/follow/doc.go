// Package follow creates the work that changes of policies require.
//
//	follower := &follow.Follower{Client: client, Made: objects, Rules: worker.Planner, Every: time.Hour, Threshold: threshold, Log: log, …}
//	next, err := follower.Once(ctx)                 // in one replica at a time, after each change
//
// A rule for existing resources gets UpdateRequests for its triggers when its policy is new or changed. The record of origin (package
// origin) lists the generate rules that have run. If a listed rule no longer exists, its generated objects are deleted or released.
//
// The package writes UpdateRequests for others to execute; it evaluates a rule only to find its triggers.
//
// Floor 7: imports updaterequest, updaterequest/origin and the floors below.
package follow
