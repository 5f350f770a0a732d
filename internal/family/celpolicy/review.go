package celpolicy

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Messages of the review, copied verbatim from Kyverno.
const (
	textNoRule     = "a matchConstraints with at least one resource rule is required"
	textNoGlobals  = "globalContext.* is not allowed in namespaced policies"
	textNoServices = "http.* is not allowed in namespaced policies; set --allowHTTPInNamespacedPolicies to enable"
)

// ReviewConstraints reports constraints without a rule. A policy with such constraints would match nothing.
func ReviewConstraints(m *admissionregistrationv1.MatchResources) (diags diag.List) {
	if m == nil || len(m.ResourceRules) == 0 {
		diags.Required("spec.matchConstraints", textNoRule)
	}
	return diags
}

// ReviewCalls reports calls in expressions that a namespaced policy may not make. If a stored policy contains such a call, its evaluation
// returns an error.
func ReviewCalls(in family.Reviewed) (diags diag.List) {
	p := in.Program
	if p.Namespace == "" {
		return nil
	}
	if slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Globals }) {
		diags.Forbidden("spec", textNoGlobals)
	}
	if !in.ServicesInNamespaces && slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Services }) {
		diags.Forbidden("spec", textNoServices)
	}
	return diags
}
