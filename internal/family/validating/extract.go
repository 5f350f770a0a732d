package validating

import (
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// extract makes the rule evaluate the Pod templates of objects.
func extract(rule *policy.Rule) {
	celpolicy.OnTemplates(rule, func(err error) policy.Yield { return failed(textContext, err) })
}
