package engine

import (
	"context"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/exempt"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/workload"
)

// excepted returns the result of a rule that an exception exempts, or that has failed, with the yield y. For a failure it evaluates the rule
// again with the exceptions that count only then: those that cover workloads, and those that change the action. Whatever cannot be looked up
// or evaluated exempts nothing.
func (r *runner) excepted(c *policy.Call, y policy.Yield) policy.Yield {
	if len(y.Exceptions) > 0 {
		return r.compared(c, y)
	}
	workload, audit := false, false
	for _, e := range c.Rule.Exceptions {
		workload, audit = workload || e.Workload, audit || e.Audit
	}
	if !workload && !audit {
		return y
	}
	again := further(c)
	if workload {
		again.exceptions.Owners = r.owners(c)
		if len(again.exceptions.Owners) > 0 {
			if with := r.again(again, func(e *policy.Exception) bool { return e.Workload }); !fails(&with) && with.Status != policy.StatusError {
				return with
			}
		}
	}
	if audit {
		again.exceptions.Audits = true
		if with := r.again(again, func(e *policy.Exception) bool { return e.Audit }); len(with.Exceptions) > 0 && !fails(&with) && with.Status != policy.StatusError {
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
	if with := again.eval(r, nil); with.Status != policy.StatusNone {
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

// again evaluates the rule of the call again, with the exceptions that ask for it. The evaluation is charged to the namespace of the policy, or
// for a cluster-wide policy to those of these exceptions. An exception whose namespace has used up its share does not count.
func (r *runner) again(c *call, asks func(*policy.Exception) bool) policy.Yield {
	if c.Program.Namespace != "" || r.in.PaceException == nil {
		return c.eval(r, r.account.Pacer())
	}
	var paying payers
	defer func() { paying.Done() }()
	whole, rule, counts := c.Rule, *c.Rule, false
	defer func() { c.Rule = whole }()
	rule.Exceptions = nil
	for _, e := range whole.Exceptions {
		if asks(e) {
			if err := paying.add(r, e); err != nil {
				c.NotEvaluated(e, err)
				continue
			}
			counts = true
		}
		rule.Exceptions = append(rule.Exceptions, e)
	}
	if !counts {
		return policy.Yield{Status: policy.StatusError}
	}
	c.Rule = &rule
	return c.eval(r, &paying)
}

// payers are the pacers of the namespaces of exceptions. Each pays for the whole evaluation, as it would without the others.
type payers []payer

type payer struct {
	namespace string
	pacer     budget.Pacer // nil if the namespace is not charged
	err       error        // why its exceptions do not count
}

// add adds the namespace of the exception. The error means that its share is used up.
func (p *payers) add(r *runner, e *policy.Exception) error {
	for _, x := range *p {
		if x.namespace == e.Namespace {
			return x.err
		}
	}
	x := payer{namespace: e.Namespace, pacer: r.in.PaceException(e, r.req)}
	if x.pacer != nil {
		x.err = x.pacer.Pace(r.ctx, 0)
	}
	*p = append(*p, x)
	return x.err
}

// Pace implements budget.Pacer. It only counts: the debt of one namespace must not stop the exceptions of another one.
func (p *payers) Pace(_ context.Context, steps int64) error {
	p.Spend(steps)
	return nil
}

// Spend implements budget.Pacer.
func (p *payers) Spend(steps int64) {
	for _, x := range *p {
		if x.pacer != nil && x.err == nil {
			x.pacer.Spend(steps)
		}
	}
}

// Done implements budget.Pacer.
func (p *payers) Done() {
	for _, x := range *p {
		if x.pacer != nil {
			x.pacer.Done()
		}
	}
}

// call is a further evaluation of a rule, with a budget of its own.
type call struct {
	policy.Call
	env        evalenv.Env
	meter      budget.Apart
	exceptions policy.ForExceptions
}

func further(c *policy.Call) *call {
	again := &call{Call: *c, env: *c.Env, exceptions: c.ForExceptions()}
	again.Env, again.env.Meter, again.Exceptions = &again.env, &again.meter.Meter, &again.exceptions
	return again
}

func (c *call) eval(r *runner, p budget.Pacer) (y policy.Yield) {
	defer func() {
		if recover() != nil || c.meter.Settle() != nil {
			y = policy.Yield{Status: policy.StatusError}
		}
	}()
	c.meter.ForRule(r.ctx, p)
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
