package rule

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

var validatePattern = &Kind{
	Name:  "validate.pattern",
	Stage: policy.StageValidate,
	Doc: "The resource must match the pattern: a partial document with wildcards, operators and anchors. " +
		"The result is skip if the anchors exclude this resource from the pattern.",
	Owns:          func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.RawPattern != nil },
	skipOnDelete:  true,
	allowExisting: true,
	lean:          true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		v := r.Validation
		return onResource(c.pattern(v.RawPattern, c.in.Path+".validate.pattern", c.message(v.Message, c.in.Path+".validate.message")))
	},
}

// check evaluates a value: the resource, or an element of it.
type check func(s *scope.Scope, resource any) policy.Yield

// onResource returns the handler that checks the resource of the request. It returns nil if evaluate is nil.
func onResource(evaluate check) handler {
	if evaluate == nil {
		return nil
	}
	return func(s *scope.Scope) policy.Yield {
		object, err := subject(s)
		if err != nil {
			return failed("", err)
		}
		return evaluate(s, object)
	}
}

// pattern compiles one pattern to a check. It returns nil if the pattern is malformed.
func (c *compiler) pattern(raw *apiextensionsv1.JSON, path string, msg message) check {
	v, ok := c.decode(raw, path)
	if !ok {
		return nil
	}
	p, diags := pattern.Compile(v, path, c.in.Allowance)
	c.diags.Add(diags...)
	c.matches(v)
	for _, t := range p.Templates() {
		c.reads.Add(t)
	}
	pass := policy.Yield{Status: policy.StatusPass, Message: "validation rule '" + c.name + "' passed."}
	name := c.name
	return func(s *scope.Scope, resource any) policy.Yield {
		v, err := p.Match(s.QueryEnv(), s, resource)
		if err != nil {
			return failed("", err)
		}
		switch v.Status {
		case pattern.Pass:
			return pass
		case pattern.Skip:
			return policy.Yield{Status: policy.StatusSkip, Message: v.Message}
		}
		return patternFailure(s, &msg, name, v)
	}
}

// matches records the fields that the raw pattern v reads, either of the resource or of the element of the enclosing loop.
func (c *compiler) matches(v any) {
	var fields value.Fields
	pattern.Reads(v, &fields)
	c.reads.AddObject(&fields)
	if c.looping {
		c.reads.AddVariable("element").Merge(&fields)
	}
}

// patternFailure returns the result for a mismatch. A mismatch without a path is an execution error.
func patternFailure(s *scope.Scope, msg *message, name string, v pattern.Verdict) policy.Yield {
	out := "validation error: "
	if text := msg.orAuthored(s); text != "" {
		out += sentence(text) + " "
	}
	if v.Status == pattern.Error || v.Path == "" {
		return policy.Yield{Status: policy.StatusError, Message: out + "rule " + name + " execution error: " + v.Message}
	}
	return policy.Yield{Status: policy.StatusFail, Path: v.Path, Message: out + "rule " + name + " failed at path " + v.Path}
}
