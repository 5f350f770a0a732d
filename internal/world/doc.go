// Package world names, as tiny interfaces, everything that an evaluation may ask of the outside: objects of the
// cluster, services, registries, names, the time.
//
//	w := root.For(world.Cluster)      // a ClusterPolicy
//	w := root.For(world.InNamespace("team-a"))  // a namespaced Policy: sees its own namespace only
//
// Rules never hold a client: they hold a World that was cut to their Reach, so confinement is a type and not a string
// check. A nil interface means "not available here" and every user of World must answer it with an error, never with
// an empty result. Implementations live above (world/live, world/fixed).
//
// Floor 0 (leaf): interfaces only; imports trace.
package world
