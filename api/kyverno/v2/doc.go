// Package v2 holds the Go form of the kyverno.io/v2 API: PolicyException, which exempts resources from rules,
// CleanupPolicy and ClusterCleanupPolicy, which delete resources, GlobalContextEntry, which keeps data for policies, and
// UpdateRequest, the work that a request asked for.
//
//	var exception kyvernov2.PolicyException
//	err := yaml.UnmarshalStrict(manifest, &exception)
//	for _, e := range exception.Spec.Exceptions { … e.PolicyName, e.RuleNames … }
//
// The kinds but UpdateRequest are the same, field for field, in kyverno.io/v2beta1, and share its types; v2 is the stored
// version of all but GlobalContextEntry.
// The package does not evaluate exceptions: internal/exception does.
//
// It imports nothing of Ephor but the other versions of the group.
//
// +kubebuilder:object:generate=true
// +groupName=kyverno.io
package v2
