// Package lifecycle starts a long-running process, runs its controllers, elects a leader and shuts down in order.
//
//	task := lifecycle.Task{Name: "webhooks", Wake: changed, Once: reconcile}   // one controller: a state, brought about again after news
//	leader := lifecycle.Leader{Config: cfg, Lease: "kyverno", Tasks: tasks, …}  // runs tasks while this process holds the lease
//	phases := lifecycle.Phases{Cache: manager.Start, Build: build, Serve: serve, Fill: fill, Work: leader.Run, Last: …}
//	err := phases.Run(ctx)                                                      // begins and ends them in order
//
// Further parts are Probes for the kubelet, Reachability of the API server, bounds of the heap, and the return of memory to the operating system.
//
// The package has no flags and knows no controller: package app has them.
//
// Floor 4: imports http1.
package lifecycle
