package native

import (
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// These texts are Kyverno's, verbatim.
const (
	textMutated = "mutation is successfully applied"
	textSkipped = "match conditions aren't met"
)

// eval evaluates the policy once, or once for each binding and each of its parameters. Each evaluation starts from the result of the
// previous one.
func (p *program) eval(c *policy.Call) policy.Yield {
	bound := p.bindings
	if len(bound) > 0 {
		var err error
		if bound, err = p.bound(c.Context(), c.Request); err != nil {
			return failed(err)
		}
	} else {
		bound = []*Binding{nil}
	}
	return p.mutate(c, bound)
}

// mutate returns the object after the mutations for all bindings.
func (p *program) mutate(c *policy.Call, bound []*Binding) policy.Yield {
	before, err := c.Request.Object.Map()
	if err != nil {
		return failed(err)
	}
	object, applied := before, false
	for _, b := range bound {
		inputs, err := p.inputs(c, b)
		if err != nil {
			return failed(err)
		}
		for _, in := range inputs {
			if applied {
				in.Object = object
			}
			ok, err := p.apply(c, in)
			if err != nil {
				return failed(err)
			}
			if ok {
				object, applied = in.Object.(map[string]any), true
			}
		}
	}
	if !applied {
		return policy.Yield{Status: policy.StatusSkip, Message: textSkipped, Unmatched: true}
	}
	y := policy.Yield{Status: policy.StatusPass, Message: textMutated}
	if equal, err := c.Meter.Equal(before, object); err != nil {
		return failed(err)
	} else if !equal {
		y.Object = value.Of(object)
	}
	return y
}

// failed returns the result of a policy that could not be evaluated; its failurePolicy decides about the request.
func failed(err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: "failed to evaluate policy: " + err.Error(), Cause: err}
}

// apply applies the mutations once, in order, to the object of in. ok is false if the match conditions are false.
func (p *program) apply(c *policy.Call, in *run.Input) (ok bool, err error) {
	meter := c.Meter
	if ok, err := p.rule.Applies(meter.Context(), meter, in); !ok || err != nil {
		return false, err
	}
	for _, m := range p.mutations {
		object, err := p.rule.Mutate(meter.Context(), meter, in, m, celrule.Merging{Types: p.types})
		if err != nil {
			return false, err
		}
		in.Object = object
	}
	return true, nil
}
