package rule

import (
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
)

var validatePodSecurity = &Kind{
	Name:  "validate.podSecurity",
	Stage: policy.StageValidate,
	Doc: "Checks Pods, and the Pod templates of controllers, against a level of the Pod Security Standards in a given Kubernetes " +
		"version. Controls can be excluded for images, fields or values.",
	Owns:          func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.PodSecurity != nil },
	skipOnDelete:  true,
	allowExisting: true,
	lean:          true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		return c.podSecurity(r.Validation.PodSecurity)
	},
}

func (c *compiler) podSecurity(in *kyvernov1.PodSecurity) handler {
	path := c.in.Path + ".validate.podSecurity"
	mistakes := pss.CheckStandard(in.Level, in.Version, path)
	c.diags.Add(mistakes...)
	// As in Kyverno, the path of the list of exclusions omits the word validate.
	excluded, diags := pss.CompileExclusions(in.Exclude, in.Level, c.in.Path+".podSecurity.exclude")
	c.diags.Add(diags...)
	standard, err := pss.New(in.Level, in.Version, c.in.Allowance.Version())
	if err != nil {
		if len(mistakes) == 0 {
			c.diags.Errorf(path, "%v", err)
		}
		return nil
	}
	if pss.IsLatest(in.Version) {
		c.latest = in.Level
	}
	evaluate := &podSecurity{
		standard: standard, excluded: excluded, level: in.Level, version: in.Version,
		pass: policy.Yield{Status: policy.StatusPass, Message: "Validation rule '" + c.name + "' passed."},
		fail: "Validation rule '" + c.name + "' failed. It violates PodSecurity \"" + in.Level + ":" + in.Version + "\": ",
	}
	// Exceptions also name controls. These are excluded in addition to those of the rule.
	c.relaxed = func(s *scope.Scope, controls []any) policy.Yield {
		lists := []pss.Exclusions{excluded}
		for _, v := range controls {
			if x, ok := v.(pss.Exclusions); ok {
				lists = append(lists, x)
			}
		}
		return evaluate.run(s, lists)
	}
	var object value.Fields
	object.Member("spec").ReadAll()
	object.Member("status").ReadAll() // the status must conform to its type
	c.reads.AddObject(&object)
	own := []pss.Exclusions{excluded}
	return func(s *scope.Scope) policy.Yield { return evaluate.run(s, own) }
}

func noteViolations(log *trace.Log, pod *pss.Pod, violations []pss.Violation) {
	for i := range violations {
		v := &violations[i]
		for k := range v.Fields {
			f := &v.Fields[k]
			log.Field(trace.Field{Control: v.ID, Reason: v.Reason, At: f.Path(pod), Required: f.Required, Value: f.Value})
		}
	}
}

// podSecurity is a compiled rule.
type podSecurity struct {
	standard       *pss.Standard
	excluded       pss.Exclusions
	level, version string
	pass           policy.Yield
	fail           string
}

func (p *podSecurity) run(s *scope.Scope, excluded []pss.Exclusions) policy.Yield {
	object, err := subject(s)
	if err != nil {
		return failed("", err)
	}
	pod, err := pss.Decode(object, s.Env.Meter)
	if err != nil {
		return failed("Error while getting new resource: ", err)
	}
	violations, err := p.standard.Check(pod, s.Env.Meter)
	if err == nil && len(violations) > 0 {
		violations, err = p.standard.Except(pod, s.Env.Meter, violations, excluded...)
	}
	if err != nil {
		return failed("", err)
	}
	if len(violations) == 0 {
		return p.pass
	}
	if s.Env.Trace != nil {
		noteViolations(s.Env.Trace, pod, violations)
	}
	var b strings.Builder
	b.WriteString(p.fail)
	for i := range violations {
		b.WriteString(violations[i].Text(pod))
	}
	if err := s.Env.Meter.Bytes(b.Len()); err != nil {
		return failed("", err)
	}
	ids, asJSON := pss.Summary(pod, violations)
	return policy.Yield{Status: policy.StatusFail, Message: b.String(), Properties: map[string]string{
		"standard": p.level, "version": p.version, "controls": ids, "controlsJSON": asJSON,
	}}
}
