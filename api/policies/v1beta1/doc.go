// Package v1beta1 holds the Go form of the policies.kyverno.io/v1beta1 API: the policies that are written in CEL, and the
// PolicyException for them.
//
//	var p policiesv1beta1.ValidatingPolicy
//	err := yaml.UnmarshalStrict(manifest, &p)
//
// This is the stored version. The versions v1 and v1alpha1 have the same schema; every version is decoded into these types. A
// namespaced kind has the spec and the status of its cluster-scoped kind.
//
// Fields whose meaning depends on whether they are given are pointers; defaults are applied by the families, not here.
//
// It imports nothing of Ephor.
//
// +kubebuilder:object:generate=true
// +groupName=policies.kyverno.io
package v1beta1
