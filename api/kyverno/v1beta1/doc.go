// Package v1beta1 holds the Go form of the kyverno.io/v1beta1 API: UpdateRequest as it was before v2. The version is not
// served; the definition keeps it so that objects which were stored with it can be read.
//
//	var request kyvernov1beta1.UpdateRequest
//	err := yaml.UnmarshalStrict(manifest, &request)
//
// The types are only read by the generator of the definitions: they have no lists, no deep copies and no scheme.
//
// It imports nothing of Ephor but the other versions of the group.
//
// +groupName=kyverno.io
package v1beta1
