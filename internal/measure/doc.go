// Package measure parses values that Kubernetes users compare: durations, quantities, numbers, versions, and ranges of them.
//
//	limit := measure.NewBound("1Gi")          // once, at compile time of a policy
//	c, ok := limit.Compare("512Mi")           // -1, true: 512Mi is less than the bound; nothing is parsed twice
//	r, ok := measure.ParseRange("100Mi-2Gi")  // r.Contains("1Gi")
//
// Patterns and conditions share this package but not their rules: each decides which kinds of measure an operator tries, and in which
// order. Text without digits is rejected without allocating, since most values of a resource are words. Inputs are bounded before they
// reach third-party parsers: `1e999999999` is a valid quantity, but comparing it would exhaust the memory, so this package rejects it.
//
// Floor 0 (leaf): imports nothing of ours.
package measure
