// Package live is the world of rules in a cluster: single objects read from the API server with the process's own rights, namespaces, name
// resolution, the clock and random numbers.
//
//	root, err := live.Open(live.Options{Config: config, Reader: client, Labels: namespaceLabels, …})
//	outcome := engine.Eval(ctx, engine.Input{…, Root: root})
//
// A World for one namespace rejects objects in other namespaces and cluster-scoped objects. The package caches nothing beyond its Reader's
// cache, and writes nothing.
//
// Floor 4: imports apicall, registry and world.
package live
