// Package policykind describes the kinds of policies: what every part of Ephor outside of a family needs to know of its kinds.
//
//	k := policykind.Of("kyverno.io", "ClusterPolicy")  // nil for a kind of no family
//	k.LabelPrefix                                      // cpol.kyverno.io/
//	policykind.ForWork("generate", namespaced)         // the kind that an UpdateRequest of that type names by its key
//
// A family adds its kinds as rows of the table in table.go. Nothing else outside of the family names them.
//
// Floor 0 (leaf): imports nothing of ours.
package policykind
