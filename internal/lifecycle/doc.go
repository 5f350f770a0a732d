// Package lifecycle starts a long-running process, runs its controllers, elects a leader and shuts down in order.
//
//	task := lifecycle.Task{Name: "webhooks", Wake: changed, Once: reconcile}   // one controller: reconciles after each change
//	leader := lifecycle.Leader{Config: cfg, Lease: "kyverno", Tasks: tasks, …}  // runs tasks while this process holds the lease
//	phases := lifecycle.Phases{Cache: manager.Start, Build: build, Serve: serve, Fill: fill, Work: leader.Run, Last: …}
//	err := phases.Run(ctx)                                                      // begins and ends them in order
//
// It also has Probes for the kubelet, checks the Reachability of the API server, bounds the heap, and returns memory to the operating
// system.
//
// The package has no flags and knows no controller: package app has them.
//
// Floor 4: imports http1.
package lifecycle
