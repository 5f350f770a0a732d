package generating

import (
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// These texts are Kyverno's, verbatim.
const (
	textGenerated = "policy evaluated successfully"
	textFailed    = "failed to evaluate policy: "
)

// eval returns work if the conditions are true, and plans the work if the call requests a plan.
func (g *generator) eval(c *policy.Call) policy.Yield {
	in, err := g.input(c)
	if err != nil {
		return failed(err)
	}
	exemption, err := celpolicy.ExemptTrigger(c)
	switch {
	case err != nil:
		return failed(err)
	case exemption.Full.Status != policy.StatusNone:
		return exemption.Full
	}
	out := &output{call: c}
	in.Exceptions, in.Generate = exemption.Allowed, out.addAll
	run := g.subject.Rule.Begin(c.Context(), c.Meter, in)
	if !c.Request.Held { // otherwise the conditions held at admission, and cannot be evaluated again
		if ok, err := run.Applies(); err != nil {
			return failed(err)
		} else if !ok {
			return policy.Yield{}
		}
	}
	y := policy.Yield{Status: policy.StatusPass, Message: textGenerated}
	if c.Request.DryRun {
		return y
	}
	work := g.work
	if c.Plan {
		work.Planned = true
		if err = g.make(run, out); err == nil {
			y.Properties, err = run.Annotations()
		}
		if err != nil {
			y = failed(err)
		}
		work.Generated = out.made
	}
	y.Work = []policy.Work{work}
	return y
}

// make evaluates the entries of spec.generate, in order.
func (g *generator) make(run *celrule.Run, out *output) error {
	for _, s := range g.steps {
		if s.expression != nil {
			if _, err := run.Evaluate(s.expression); err != nil {
				return err
			}
			continue
		}
		objects, err := s.template.render(run.Evaluate)
		if err == nil {
			err = out.rendered(objects)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// input returns the variables of expressions. For a deleted object they hold its last state.
func (g *generator) input(c *policy.Call) (*run.Input, error) {
	in, err := celrule.Policies.Input(c)
	if err == nil && c.Request.Operation == policy.Delete {
		in.Object = in.OldObject
	}
	return in, err
}

// failed returns the result of a policy that could not be evaluated. Unlike for other kinds, reports show the name of the policy as the
// rule.
func failed(err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: textFailed + celpolicy.Text(err), Cause: err}
}
