// Package preflight reads a cluster in which Kyverno runs, and finds what would be lost or stop working when Ephor replaces it.
//
//	report := preflight.Run(ctx, &preflight.Cluster{Reader: c, Kinds: discovery, Namespace: "kyverno", Now: time.Now})
//	report.Lost() // definitions that Helm would delete, policies that would not be enforced, …
//
// Each check (check_*.go) reads a part of the cluster and returns findings: a code, a severity, the object, what happens, and the
// commands that correct it. A part that cannot be read is a finding too, never "nothing found". Run changes nothing; Keep only
// sets the annotations that preserve definitions.
//
// The package does not check an installation of Ephor: package leftover lists the objects that Ephor itself makes.
//
// Floor 7: imports policyreview for the rights that policies need, webhookconf for the names of configurations, and lower floors.
package preflight
