package celpolicy

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
)

// Actions returns the effects of a failure at admission; without any action it denies.
func Actions(list []admissionregistrationv1.ValidationAction) (out policy.Action) {
	effects := map[admissionregistrationv1.ValidationAction]policy.Action{
		admissionregistrationv1.Deny: policy.Deny, admissionregistrationv1.Audit: policy.Audit, admissionregistrationv1.Warn: policy.Warn,
	}
	for _, a := range list {
		out |= effects[a]
	}
	if len(list) == 0 {
		return policy.Deny
	}
	return out
}

// CheckActions reports unknown actions.
func CheckActions(c *celrule.Compiler, list []admissionregistrationv1.ValidationAction, path string) {
	allowed := []string{string(admissionregistrationv1.Deny), string(admissionregistrationv1.Audit), string(admissionregistrationv1.Warn)}
	for i, a := range list {
		if !slices.Contains(allowed, string(a)) {
			c.Diags.Unsupported(fmt.Sprintf("%s.validationActions[%d]", path, i), string(a), allowed)
		}
	}
}
