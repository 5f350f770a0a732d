package rule

import (
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var validateDeny = &Kind{
	Name:  "validate.deny",
	Stage: policy.StageValidate,
	Doc: "Denies the request if the conditions hold, or always if there are no conditions. " +
		"Unlike patterns, deny rules are also evaluated for DELETE requests.",
	Owns:          func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.Deny != nil },
	allowExisting: true,
	lean:          true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		v := r.Validation
		return c.deny(v.Deny, c.in.Path+".validate.deny", c.message(v.Message, c.in.Path+".validate.message"))
	},
}

// deny compiles a deny block with the message of its rule.
func (c *compiler) deny(d *kyvernov1.Deny, path string, msg message) handler {
	var conditions *condition.Set
	separator := "; "
	if v, ok := c.decode(d.RawAnyAllConditions, path+".conditions"); ok && v != nil {
		conditions = c.conditionTree(v, path+".conditions")
		c.diags.Add(conditions.Deprecated()...)
		if legacyList(v) {
			separator = ";"
		}
	}
	pass := policy.Yield{Status: policy.StatusPass, Message: "validation rule '" + c.name + "' passed."}
	silent := "validation error: rule " + c.name + " failed"
	return func(s *scope.Scope) policy.Yield {
		var messages []string
		if conditions != nil {
			verdict, err := conditions.Eval(s.QueryEnv(), s)
			if err != nil {
				return failed("failed to check deny conditions: ", err)
			}
			if !verdict.OK {
				return pass
			}
			messages = verdict.Messages
		}
		return policy.Yield{Status: policy.StatusFail, Message: denyMessage(s, &msg, messages, separator, silent)}
	}
}

// denyMessage joins the rule's message and the messages of the true conditions.
func denyMessage(s *scope.Scope, msg *message, conditions []string, separator, silent string) string {
	if msg.empty() && len(conditions) == 0 {
		return silent
	}
	text := msg.orAuthored(s)
	switch {
	case text == "":
		return strings.Join(conditions, separator)
	case len(conditions) == 0:
		return text
	}
	return text + separator + strings.Join(conditions, separator)
}

// legacyList reports whether conditions have the old form, a plain list, instead of a list of any/all blocks.
func legacyList(v any) bool {
	list, ok := v.([]any)
	if !ok {
		return false
	}
	for _, e := range list {
		m, _ := e.(map[string]any)
		if _, isAny := m["any"]; isAny {
			return false
		}
		if _, isAll := m["all"]; isAll {
			return false
		}
	}
	return true
}
