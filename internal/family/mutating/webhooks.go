package mutating

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// endpoints are the webhook endpoints for policies of the family. As in Kyverno, their names contain "validate".
var endpoints = celpolicy.Endpoint(policy.Endpoint{
	Kinds: []string{Kind}, Name: "mpol.validate.kyverno.svc", Path: "/mpol", Mutating: true,
	Stages: policy.StageMutate | policy.StageMutateExisting, Words: celpolicy.Mutating,
})

// webhook returns the webhook of the policy.
func webhook(p *policy.Program, spec *policiesv1beta1.MutatingPolicySpec) policy.Webhook {
	var settings *policiesv1beta1.PodControllers
	if spec.Autogen != nil {
		settings = spec.Autogen.PodControllers
	}
	return celpolicy.Webhook(p, celpolicy.WebhookInput{
		At: endpoints, Constraints: spec.MatchConstraints, Conditions: spec.MatchConditions, Configs: celpolicy.Configs(spec.MatchConstraints, settings),
		Rewritten: func(c celpolicy.Config) []admissionregistrationv1.MatchCondition {
			return generated(spec, c).MatchConditions
		},
	})
}
