// Package follow creates the work that changes of policies require.
//
//	follower := &follow.Follower{Worker: worker, Every: time.Hour, Threshold: threshold, Log: log}
//	next, err := follower.Once(ctx)                 // in one replica at a time, after each change
//
// A rule for existing resources gets UpdateRequests for its triggers when its policy is new or changed. A ledger in a ConfigMap
// lists the generate rules that have run. If a listed rule no longer exists, its generated objects are deleted or released.
//
// The package writes UpdateRequests for execute.Worker to carry out; it evaluates a rule only to find its triggers.
//
// Floor 7: imports updaterequest, updaterequest/execute and the floors below.
package follow
