// Package world defines small interfaces for everything outside that an evaluation may read: objects of the cluster, services, registries,
// names, the time.
//
//	w := root.For(world.Cluster)      // a ClusterPolicy
//	w := root.For(world.InNamespace("team-a"))  // a namespaced Policy: sees only its own namespace
//
// Rules never hold a client: they hold a World that is limited to their Reach, so confinement is a type and not a string check. A nil
// interface means "not available here", which every user of World must report as an error, never as an empty result. Implementations are in
// world/live and world/fixed; world/taped notes
// what a review looks up and answers it again.
//
// Floor 0 (leaf): interfaces only; imports trace.
package world
