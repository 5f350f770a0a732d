// Package v2alpha1 holds the Go form of the kyverno.io/v2alpha1 API: GlobalContextEntry.
//
//	var entry kyvernov2alpha1.GlobalContextEntry
//	err := yaml.UnmarshalStrict(manifest, &entry)
//
// The kind differs from v2beta1, which is the stored version, and v2 in nothing but its status; the types of the spec
// are those of v2beta1.
//
// The types are only read by the generator of the definitions: they have no lists, no deep copies and no scheme.
//
// It imports nothing of Ephor but the other versions of the group.
//
// +groupName=kyverno.io
package v2alpha1
