// Package family describes families of policies: the properties of a family's kinds that all parts of Ephor need.
//
//	var Family = &family.Family{Name: "classic", Kinds: kinds, Compile: compileSource}   // in internal/family/classic
//
//	k := compile.Kinds.Of("kyverno.io", "ClusterPolicy")  // nil for a kind that belongs to no family
//	k.LabelPrefix                                         // cpol.kyverno.io/
//
// Each family exports its descriptor from a package below this one, and package compile lists the descriptors: a new family needs a
// folder and one row in that list. No other package names a kind.
//
// Floor 1: imports policy and diag.
package family
