package native

import "ephor.invalid/ephor/internal/policy"

// Properties of results that hold the name of the binding.
const (
	propertyBinding  = "binding"
	propertyMutating = "mapBinding"
)

// textNotApplied is the message if the policy would change the object.
const textNotApplied = "mutation is not applied"

// CompileReport returns a Program that reports how a policy of either kind evaluates existing objects. It has one result for each
// binding that selects the object, or a single result if there are no bindings. A mutating policy fails for an object that it would
// change.
func CompileReport(in Source, o Options) *policy.Program {
	if in.Policy["kind"] == ValidatingPolicy {
		p, out := compileValidation(in)
		out.Rules[0].Eval = func(c *policy.Call) policy.Yield { return p.reportEach(c, propertyBinding, p.evaluate) }
		return out
	}
	p, out := compileMutation(in, o)
	for _, r := range out.Rules {
		r.Stage = policy.StageValidate
		r.Eval = func(c *policy.Call) policy.Yield { return p.reportEach(c, propertyMutating, p.wouldChange) }
	}
	return out
}

// wouldChange reports whether the policy would change the object.
func (p *program) wouldChange(c *policy.Call, b *Binding) policy.Yield {
	y := p.mutate(c, []*Binding{b})
	switch {
	case y.Status == policy.StatusSkip:
		return policy.Yield{}
	case y.Object != nil:
		return policy.Yield{Status: policy.StatusFail, Message: textNotApplied}
	}
	return y
}

// reportEach returns the result of evaluate for each binding that selects the object. The given property holds the name of the binding.
func (p *subject) reportEach(c *policy.Call, property string, evaluate func(*policy.Call, *Binding) policy.Yield) policy.Yield {
	bound := []*Binding{nil}
	if len(p.bindings) > 0 {
		var err error
		if bound, err = p.bound(c.Context(), c.Request); err != nil {
			return failed(err)
		}
	}
	var all []policy.Yield
	for _, b := range bound {
		y := evaluate(c, b)
		if y.Status == policy.StatusNone {
			continue
		}
		if b != nil {
			y.Properties = map[string]string{property: b.name}
		}
		all = append(all, y)
	}
	if len(all) == 0 {
		return policy.Yield{}
	}
	all[0].Also = all[1:]
	return all[0]
}
