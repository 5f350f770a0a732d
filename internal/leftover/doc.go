// Package leftover lists and removes what Ephor itself makes in a cluster and what Kyverno does not know, for the way back to Kyverno.
//
//	items, err := (&leftover.Installation{Client: c, Namespace: "kyverno", Now: time.Now}).List(ctx)
//	removed, err := installation.Remove(ctx, items)
//
// Policies, exceptions, reports, UpdateRequests and definitions are not among them, nor is what Kyverno takes over: Leases of leaders,
// certificates, the ConfigMaps. What a release or a manifest installed is for the tool that installed it.
//
// Floor 7: imports the packages that make what is listed, for the names.
package leftover
