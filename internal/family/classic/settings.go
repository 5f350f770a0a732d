package classic

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

func settings(p *kyvernov1.ClusterPolicy) policy.Settings {
	spec := &p.Spec
	s := policy.Settings{
		ApplyOne:    spec.ApplyRules != nil && *spec.ApplyRules == kyvernov1.ApplyOne,
		Admission:   spec.Admission == nil || *spec.Admission,
		Background:  background(spec),
		EmitWarning: spec.EmitWarning != nil && *spec.EmitWarning,
	}
	s.Annotate(p.Annotations)
	if failurePolicy(spec) == kyvernov1.Ignore {
		s.FailurePolicy = policy.Ignore
	}
	if t := timeout(spec); t != nil {
		s.TimeoutSeconds = *t
	}
	if w := spec.WebhookConfiguration; w != nil {
		for _, c := range w.MatchConditions {
			s.MatchConditions = append(s.MatchConditions, policy.MatchCondition{Name: c.Name, Expression: c.Expression})
		}
	}
	return s
}

func background(spec *kyvernov1.Spec) bool { return spec.Background == nil || *spec.Background }

// failurePolicy returns the field of webhookConfiguration, or else the deprecated field of the spec.
func failurePolicy(spec *kyvernov1.Spec) kyvernov1.FailurePolicyType {
	switch {
	case spec.WebhookConfiguration != nil && spec.WebhookConfiguration.FailurePolicy != nil:
		return *spec.WebhookConfiguration.FailurePolicy
	case spec.FailurePolicy != nil:
		return *spec.FailurePolicy
	}
	return kyvernov1.Fail
}

func timeout(spec *kyvernov1.Spec) *int32 {
	if w := spec.WebhookConfiguration; w != nil && w.TimeoutSeconds != nil {
		return w.TimeoutSeconds
	}
	return spec.WebhookTimeoutSeconds
}
