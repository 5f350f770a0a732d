package webhookconf

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// CleanupValidating is the configuration of the cleanup controller: the review of cleanup policies.
const CleanupValidating = "kyverno-cleanup-validating-webhook-cfg"

// DesiredCleanup computes the configuration of the cleanup controller. Of in it reads Settings, CABundle, Owner and those
// Options that say where the controller answers. The Reconciler stores it like any other.
func DesiredCleanup(in Input) Configurations {
	b := &builder{Input: in}
	// Kyverno's rule names subresources only, and so is never asked about a policy itself.
	w := b.review("/validate", rule("kyverno.io", []string{"v2alpha1", "v2beta1", "v2"}, writes, "cleanuppolicies", "clustercleanuppolicies"))
	return Configurations{Validating: []*admissionv1.ValidatingWebhookConfiguration{b.validating(CleanupValidating, w)}}
}
