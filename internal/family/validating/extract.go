package validating

import (
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
	"github.com/ephor-dev/ephor/internal/policy"
)

// extract makes the rule evaluate the Pod templates of objects.
func extract(rule *policy.Rule) {
	celpolicy.OnTemplates(rule, func(err error) policy.Yield { return failed(textContext, err) })
}
