// Package v2beta1 holds the Go form of the kyverno.io/v2beta1 API: PolicyException, and ClusterPolicy and Policy without
// most of the older forms that v1 still takes.
//
//	match and exclude      only any and all
//	preconditions, deny    only maps of any and all, without the operators In and NotIn
//	verifyImages           without image, key, roots, subject, issuer, annotations and additionalExtensions
//
// Every policy of this version is, field for field, also an object of v1, which is the stored version and the one
// that the rest of Ephor reads: decode this version to report its mistakes, and v1 to use it. A PolicyException is the
// same in v2.
//
// It imports nothing of Ephor but api/kyverno/v1.
//
// +kubebuilder:object:generate=true
// +groupName=kyverno.io
package v2beta1
