// Package lifecycle is how a long-running process begins, runs its controllers, leads and ends.
//
//	task := lifecycle.Task{Name: "webhooks", Wake: changed, Once: reconcile}   // one controller: a state, brought about again after news
//	leader := lifecycle.Leader{Config: cfg, Lease: "kyverno", Tasks: tasks, …}  // runs tasks while this process holds the lease
//	phases := lifecycle.Phases{Cache: manager.Start, Build: build, Serve: serve, Fill: fill, Work: leader.Run, Last: …}
//	err := phases.Run(ctx)                                                      // begins and ends them in order
//
// Beside that: Probes for the kubelet, Reachability of the API server, bounds of the heap, and memory that goes back to the operating system.
//
// The package has no flags and knows no controller: package app has them.
//
// Floor 4: imports http1.
package lifecycle
