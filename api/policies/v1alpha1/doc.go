// Package v1alpha1 holds the Go form of the policies.kyverno.io/v1alpha1 API: the policies that are written in CEL, and the
// PolicyException for them.
//
//	var p policiesv1alpha1.ValidatingPolicy
//	err := yaml.UnmarshalStrict(manifest, &p)
//
// Its kinds have the specs and statuses of v1beta1, the stored version; they exist for the definitions of the kinds. It is deprecated, and has no namespaced policies.
//
// The types are only read by the generator of the definitions: they have no lists, no deep copies and no scheme.
//
// It imports nothing of Ephor but the other versions of the group.
//
// +groupName=policies.kyverno.io
package v1alpha1
