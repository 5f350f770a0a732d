// Package world defines the lookups of everything outside that an evaluation may read: objects of the cluster, services, registries,
// names, the time.
//
//	w := root.For(world.Cluster())              // a ClusterPolicy
//	w := root.For(world.InNamespace("team-a"))  // a namespaced Policy: sees only its own namespace
//	o, err := w.Objects.Get(ctx, "v1", "ConfigMap", "team-a", "settings")
//
// Rules never hold a client: they hold a World that is limited to their Reach, so confinement is a type and not a string check. A nil
// lookup means "not available here", which every user of World must report as an error, never as an empty result.
//
// A lookup is a function from a Request to an answer. The Request says what a Reach of one namespace allows (Within), how a trace describes
// it (Title), and what identifies it on a tape (Key). So each decorator is one function (Around) for all lookups: confinement here, traces in
// package observe, records and replays in world/taped. A new lookup is a file with its Request, a field of World, and a line in World.each.
// Implementations are in world/live and world/fixed.
//
// Floor 0 (leaf): imports apipath, kinds, trace and value.
package world
