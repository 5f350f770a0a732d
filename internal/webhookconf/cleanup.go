package webhookconf

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/schedule"
)

// The names of the cleanup controller's configurations: one for the review of cleanup policies, the other for TTL labels.
const (
	CleanupValidating = "kyverno-cleanup-validating-webhook-cfg"
	TTLValidating     = "kyverno-ttl-validating-webhook-cfg"
)

// DesiredCleanup computes the configurations of the cleanup controller. Of the input it uses the Settings, CABundle, Owner, and the Options
// with the controller's address. A Reconciler with Own set stores them like any other configuration.
func DesiredCleanup(in Input) Configurations {
	b := &builder{Input: in}
	// Kyverno's rule names only subresources, so the API server never calls its webhook for the policy itself.
	policies := b.review("/validate", b.policyRules(family.ReviewCleanup)...)
	ttl := b.review("/verifyttl", rule("*", []string{"*"}, writes, "*"))
	ttl[0].FailurePolicy = admissionv1.Ignore // the webhook only returns warnings
	ttl[0].ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: schedule.TTLLabel, Operator: metav1.LabelSelectorOpExists},
	}}
	return Configurations{path: in.Options.Path, Validating: []*admissionv1.ValidatingWebhookConfiguration{
		b.validating(CleanupValidating, policies), b.validating(TTLValidating, ttl),
	}}
}
