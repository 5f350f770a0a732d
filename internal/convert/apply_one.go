package convert

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// first returns the condition that no earlier rule of the policy has decided, for applyRules: One.
func (c *converter) first() expr {
	s := &c.policy.Spec
	if s.ApplyRules == nil || *s.ApplyRules != kyvernov1.ApplyOne {
		return yes
	}
	out := yes
	for i := range c.index {
		out = and(out, not(c.decided(&s.Rules[i])))
	}
	return out
}

// decided returns the condition that a rule passes or fails for a request.
func (c *converter) decided(r *kyvernov1.Rule) expr {
	refuse := func(why string) expr {
		c.refuse("spec.applyRules", "applyRules: One is not converted: whether rule "+r.Name+" decides "+why, "write the opposite of its conditions as preconditions of the later rules")
		return no
	}
	v := r.Validation
	switch {
	case v == nil && r.Mutation == nil:
		return refuse("is known only after it is evaluated")
	case r.Mutation != nil && (len(r.Mutation.Targets) > 0 || r.Mutation.RawPatchStrategicMerge != nil && anchors().MatchString(rawText(r.Mutation.RawPatchStrategicMerge))):
		return refuse("depends on its targets or anchors")
	}
	other := &converter{policy: c.policy, schemas: c.schemas, index: slices.IndexFunc(c.policy.Spec.Rules, func(o kyvernov1.Rule) bool { return o.Name == r.Name }), path: c.path, object: c.object, changed: c.changed, controllers: c.controllers}
	matched, all := filters(&r.MatchResources, c.path+".match")
	own, _ := filters(&c.policy.Spec.Rules[c.index].MatchResources, c.path+".match")
	kinds := !slices.Equal(kindsOf(matched), kindsOf(own))
	if kinds && c.controllers {
		return refuse("for Pod controllers depends on its kinds")
	}
	other.resourceRules(matched, all, nil)
	other.context(r.Context, c.path+".context")
	var parts []expr
	for _, f := range matched {
		parts = append(parts, other.filter(f, c.object, kinds))
	}
	holds := or(parts...)
	if all {
		holds = and(parts...)
	}
	if x := r.ExcludeResources; x != nil {
		holds = and(holds, not(other.excluded(x, c.object)))
	}
	if raw, ok := other.decode(r.Preconditions, c.path+".preconditions"); ok && raw != nil {
		holds = and(holds, other.surely(func() expr { return other.conditions(raw, c.path+".preconditions") }))
	}
	for _, p := range r.CELPreconditions {
		holds = and(holds, expr{p.Expression, bindsTernary})
	}
	holds = and(holds, not(other.inapplicable(v)))
	c.reasons = append(c.reasons, other.reasons...)
	return holds
}

// inapplicable returns the condition that the anchors of the pattern of a rule exempt the object.
func (c *converter) inapplicable(v *kyvernov1.Validation) expr {
	if v == nil || !anchors().MatchString(rawText(v.RawPattern)+rawText(v.RawAnyPattern)) {
		return no
	}
	c.trail = trail{known: true}
	if v.RawPattern != nil {
		raw, _ := c.decodePattern(v.RawPattern, c.path+".validate.pattern")
		return c.pattern(raw, c.object, c.path+".validate.pattern").off
	}
	raw, _ := c.decodePattern(v.RawAnyPattern, c.path+".validate.anyPattern")
	alternatives, _ := raw.([]any)
	out := yes
	for i, one := range alternatives {
		out = and(out, c.pattern(one, c.object, fmt.Sprintf("%s.validate.anyPattern[%d]", c.path, i)).off)
	}
	return out
}

// anchors matches the keys in JSON that have an anchor.
var anchors = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[=X^<+]?\([^"]*\)"\s*:`) })

func rawText(raw *apiextensionsv1.JSON) string {
	if raw == nil {
		return ""
	}
	return string(raw.Raw)
}

// kindsOf returns the kinds of all filters, sorted.
func kindsOf(all []filter) (out []string) {
	for _, f := range all {
		out = append(out, f.ResourceDescription.Kinds...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
