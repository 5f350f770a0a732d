// Package leftover lists and removes the objects that Ephor creates and Kyverno does not know. It serves the return to Kyverno.
//
//	items, err := (&leftover.Installation{Client: c, Namespace: "kyverno", Now: time.Now}).List(ctx)
//	removed, err := installation.Remove(ctx, items)
//
// It leaves policies, exceptions, reports, UpdateRequests and definitions alone, and the objects that Kyverno takes over: Leases of
// leaders, certificates, the ConfigMaps. Objects that a release or a manifest installed are removed by the tool that installed them.
//
// Floor 7: imports the packages that create these objects, for the names.
package leftover
