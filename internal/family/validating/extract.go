package validating

import (
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// extract makes the rule one for objects that have templates of Pods somewhere: it is evaluated on each template as a Pod. The first that
// does not pass decides.
func extract(rule *policy.Rule) {
	evaluate := rule.Eval
	rule.Object = nil // templates may be anywhere
	rule.Eval = func(c *policy.Call) policy.Yield {
		object, err := c.Request.Subject()
		if err != nil {
			return failed(textContext, err)
		}
		templates, err := celpolicy.Templates(c.Meter, object)
		if err != nil {
			return failed(textContext, err)
		}
		if len(templates) == 0 {
			gvk := c.Request.RequestGVK
			return policy.Yield{Status: policy.StatusError, Message: "extraction mode: no pod template found in " + gvk.GroupVersion().String() + "/" + gvk.Kind}
		}
		var passed policy.Yield
		for _, t := range templates {
			of := *c
			of.Request = c.Request.WithObject(value.Of(t.Pod))
			y := evaluate(&of)
			switch y.Status {
			case policy.StatusFail, policy.StatusError:
				y.Message += " (pod template at " + t.Path + ")"
				return y
			case policy.StatusPass:
				passed = y
			case policy.StatusSkip:
				if passed.Status == policy.StatusNone {
					passed = y
				}
			}
		}
		return passed
	}
}
