// Package v1 holds the Go form of the kyverno.io/v1 API: ClusterPolicy and Policy, the YAML that users write.
//
//	var policy kyvernov1.ClusterPolicy
//	err := yaml.UnmarshalStrict(manifest, &policy)
//	for _, rule := range policy.Spec.Rules { … }
//
// The types describe what may be written, with the defaults and limits that the API server enforces; the CRDs in
// config/crds and the deep copies are generated from them (hack/generate.sh). Free-form parts (patterns, conditions,
// patches, values of variables) stay raw JSON. The package does not check policies: mistakes that a schema cannot see
// are found by internal/family/classic, and nothing here knows how a rule is evaluated.
//
// It imports nothing else of Ephor, so that other programs may use it.
//
// +kubebuilder:object:generate=true
// +groupName=kyverno.io
package v1
