// Package cleanup is the policy family of kyverno.io that deletes resources on a schedule: CleanupPolicy and ClusterCleanupPolicy, in
// every served version.
//
//	p, diags := cleanup.Decode(object)
//	diags.Add(cleanup.Check(p)...)
//	program := cleanup.Compile(p)   // one rule of stage delete, and program.Schedule
//
// The rule passes for a resource to delete and returns the deletion as work. It fails for a resource that matches but does not meet the
// conditions; `target` is the resource. If a policy has a mistake, its rule evaluates to status error and deletes nothing.
//
// It neither waits for the schedule nor deletes anything.
//
// Floor 2: imports scope, match, loader and leaves.
package cleanup
