// Package follow turns changes of policies into work.
//
//	follower := &follow.Follower{Worker: worker, Every: time.Hour, Threshold: threshold, Log: log}
//	next, err := follower.Once(ctx)                 // in one replica at a time, after each change
//
// A rule for existing resources gets UpdateRequests for its triggers when its policy is new or changed. A ledger in a ConfigMap
// names the generate rules that have run; what a rule made is deleted or released when the ledger names a rule that is gone.
//
// The package writes UpdateRequests for execute.Worker to carry out; it evaluates a rule only to find its triggers.
//
// Floor 7: imports updaterequest, updaterequest/execute and the floors below.
package follow
