package engine

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/exempt"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/workload"
)

// excepted returns the result of a rule that has failed with the yield y, with the exceptions that count only after a failure: those that
// cover workloads, and those that change the action. The rule is evaluated again with them. Whatever cannot be looked up or evaluated exempts
// nothing.
func (r *runner) excepted(c *policy.Call, y policy.Yield) policy.Yield {
	switch {
	case len(c.Rule.Exceptions) == 0:
		return y
	case len(y.Exceptions) > 0:
		return r.compared(c, y)
	case !fails(&y):
		return y
	}
	again := further(c)
	if slices.ContainsFunc(c.Rule.Exceptions, func(e *policy.Exception) bool { return e.Workload }) {
		again.Owners = r.owners(c)
		if len(again.Owners) > 0 {
			if with := again.eval(r); !fails(&with) && with.Status != policy.StatusError {
				return with
			}
		}
	}
	if slices.ContainsFunc(c.Rule.Exceptions, func(e *policy.Exception) bool { return e.Audit }) {
		again.Audits = true
		if with := again.eval(r); len(with.Exceptions) > 0 && !fails(&with) && with.Status != policy.StatusError {
			y.Admitted, y.Exceptions = true, with.Exceptions
		}
	}
	return y
}

// compared adds the status without exceptions to the result of an exempt object, if a scan is to evaluate both.
func (r *runner) compared(c *policy.Call, y policy.Yield) policy.Yield {
	if !c.Request.Conf.CompareExceptions || c.Request.Origin != policy.FromScan || !c.Rule.Stage.Has(policy.StageValidate) {
		return y
	}
	again, bare := further(c), *c.Rule
	bare.Exceptions, again.Rule = nil, &bare
	if with := again.eval(r); with.Status != policy.StatusNone {
		y.Properties = maps.Clone(y.Properties)
		if y.Properties == nil {
			y.Properties = map[string]string{}
		}
		y.Properties[policy.PropertyWithoutException] = with.Status.String()
	}
	return y
}

// fails reports whether any result of the evaluation is a failure.
func fails(y *policy.Yield) bool {
	return y.Status == policy.StatusFail || slices.ContainsFunc(y.Also, func(x policy.Yield) bool { return x.Status == policy.StatusFail })
}

// call is a further evaluation of a rule, with a budget of its own.
type call struct {
	policy.Call
	env   evalenv.Env
	meter budget.Apart
}

func further(c *policy.Call) *call {
	again := &call{Call: *c, env: *c.Env}
	again.Env, again.env.Meter = &again.env, &again.meter.Meter
	return again
}

func (c *call) eval(r *runner) (y policy.Yield) {
	defer func() {
		if recover() != nil {
			y = policy.Yield{Status: policy.StatusError}
		}
	}()
	c.meter.ForRule(r.ctx)
	return c.Rule.Eval(&c.Call)
}

// owners returns the controllers that give the object of the call, as requests. They are looked up at most once in an evaluation.
func (r *runner) owners(c *policy.Call) []*policy.Request {
	req := c.Request
	needs := &c.Rule.Needs
	if c.Rule.OwnNeeds != nil {
		needs = c.Rule.OwnNeeds
	}
	switch {
	case req.Subresource != "", req.Operation != policy.Create && req.Operation != policy.Update,
		needs.User || needs.Roles,               // no template says who makes the request
		needs.OldObject && req.OldObject != nil: // nor what was there before
		return nil
	}
	object, err := req.Object.Map()
	if err != nil || object == nil {
		return nil
	}
	if !r.looked {
		r.looked = true
		r.chain, r.chainErr = workload.Owners(r.ctx, c.World.Objects, req.Namespace, object)
	}
	if r.chainErr != nil {
		for _, e := range c.Rule.Exceptions {
			if e.Workload {
				c.NotEvaluated(e, r.chainErr)
			}
		}
	}
	placed := req.Origin != policy.FromAdmission || req.Operation == policy.Update
	var out []*policy.Request
	for _, owner := range r.chain {
		if workload.Gives(owner, r.chain[0], object, c.Rule.Content, placed) {
			out = append(out, exempt.RequestOf(req, owner))
		}
	}
	return out
}
