package celpolicy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/ephor-dev/ephor/internal/diag"
)

// ReviewConstraints finds constraints without a rule, with which a policy would be for nothing.
func ReviewConstraints(m *admissionregistrationv1.MatchResources) (diags diag.List) {
	if m == nil || len(m.ResourceRules) == 0 {
		diags.Required("spec.matchConstraints", "a matchConstraints with at least one resource rule is required")
	}
	return diags
}
