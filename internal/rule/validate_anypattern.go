package rule

import (
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var validateAnyPattern = &Kind{
	Name:  "validate.anyPattern",
	Stage: policy.StageValidate,
	Doc: "The resource must match at least one of the patterns. " +
		"The result is skip if the anchors of every pattern exclude this resource.",
	Owns:          func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.RawAnyPattern != nil },
	skipOnDelete:  true,
	allowExisting: true,
	lean:          true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		v := r.Validation
		return onResource(c.anyPattern(v.RawAnyPattern, c.in.Path+".validate.anyPattern", c.message(v.Message, c.in.Path+".validate.message")))
	},
}

// anyPattern compiles a list of patterns to a check that tries them in order. It returns nil if the list is malformed.
func (c *compiler) anyPattern(raw *apiextensionsv1.JSON, path string, msg message) check {
	v, ok := c.decode(raw, path)
	if !ok {
		return nil
	}
	alternatives, diags := pattern.CompileAlternatives(v, path, c.in.Allowance)
	c.diags.Add(diags...)
	for _, t := range alternatives.Templates() {
		c.reads.Add(t)
	}
	list, _ := v.([]any)
	for _, alternative := range list {
		c.matches(alternative)
	}
	passes := make([]policy.Yield, len(list))
	for i := range passes {
		passes[i] = policy.Yield{Status: policy.StatusPass,
			Message: "validation rule '" + c.name + "' anyPattern[" + strconv.Itoa(i) + "] passed."}
	}
	name := c.name
	return func(s *scope.Scope, resource any) policy.Yield {
		choice, err := alternatives.Match(s.QueryEnv(), s, resource)
		if err != nil {
			return failed("", err)
		}
		if choice.Status == pattern.Pass {
			return passes[choice.Passed]
		}
		why := choice.Describe(name)
		if choice.Status == pattern.Skip {
			return policy.Yield{Status: policy.StatusSkip, Message: why}
		}
		out := "validation error: "
		if text := msg.orAuthored(s); text != "" {
			out += sentence(text) + " "
		}
		return policy.Yield{Status: policy.StatusFail, Path: firstPath(choice), Message: out + why}
	}
}

// firstPath returns the path at which the first alternative failed.
func firstPath(c pattern.Choice) string {
	for _, v := range c.Verdicts {
		if v.Path != "" {
			return v.Path
		}
	}
	return ""
}
