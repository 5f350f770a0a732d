// Package live is the world that a rule sees in a cluster: single objects read from the API server with the process's
// own rights, namespaces, name resolution, the clock and random numbers.
//
//	root, err := live.Open(live.Options{Config: config, Reader: client, Labels: namespaceLabels, …})
//	outcome := engine.Eval(ctx, engine.Input{…, Root: root})
//
// A World made for one namespace refuses objects of other namespaces and cluster-scoped objects. The package caches
// nothing beyond what its Reader caches, and writes nothing.
//
// Floor 4: imports apicall, registry and world.
package live
