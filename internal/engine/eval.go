package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Input is the input of one evaluation.
type Input struct {
	// Selections are the Programs to evaluate, in order, each with its candidate rules.
	Selections []policy.Selection
	Request    *policy.Request
	// Stages are the stages of the rules to evaluate; other rules are skipped.
	Stages policy.Stage
	// Plan requests from rules with deferred work the exact changes (policy.Work.Planned).
	Plan bool
	// Root creates the world of each Program. A nil Root offers no data.
	Root world.Root
	// Select, if set, selects rules by their effective action in the request's namespace: enforcing rules are evaluated before the answer,
	// auditing rules after it.
	Select func(*policy.Rule, policy.Action) bool
	// Before are the results of earlier evaluations of the same request, for Yield.Settle; nil for none.
	Before []policy.Result
	// Spent is the request's budget, which earlier evaluations have charged; nil for none.
	Spent *budget.Request
	// Pace returns the pacer of a namespaced Program for one evaluation; nil for no pacing.
	Pace func(*policy.Program) budget.Pacer
	// PaceException returns the pacer of what an exception costs in the request: its conditions, and further evaluations of rules of cluster-wide
	// Programs; nil for an exception that is not charged. The function is nil for no pacing.
	PaceException func(*policy.Exception, *policy.Request) budget.Pacer
	// Now is the clock that measures Result.Elapsed and the time that is left; nil measures nothing.
	Now func() time.Time
	// Watch is called before each rule. It may return another context for the rule, and returns a function that is called with its yield
	// (without a status if the rule does not match); nil for none.
	Watch func(context.Context, *policy.Program, *policy.Rule) (context.Context, func(policy.Yield))
}

// Eval evaluates the rules of in.Selections that match in.Request, in order, and returns their results. Every rule sees the object as
// earlier rules changed it; a Program with an error among its results changes nothing. Eval never panics and returns soon after ctx is
// done: rules that were not evaluated by then have status error.
func Eval(ctx context.Context, in Input) policy.Outcome {
	out := policy.Outcome{Request: in.Request, FailurePolicy: policy.Ignore}
	run := &runner{ctx: ctx, in: in, req: in.Request, spent: in.Spent}
	if run.spent == nil {
		run.spent = budget.NewRequest()
	}
	for i := range in.Selections {
		run.rules += len(in.Selections[i].Rules)
	}
	run.ended = run.now()
	for i := range in.Selections {
		run.program(&out, &in.Selections[i])
	}
	out.Object, out.ExceptionErrors = run.req.Object, run.exceptions
	settle(&out, in.Before)
	return out
}

// runner holds the state that the rules of one evaluation share.
type runner struct {
	ctx   context.Context
	in    Input
	req   *policy.Request // with the object as mutated so far
	meter budget.Meter
	// metered is ctx with the meter, for rules whose Match counts steps; nil until one does.
	metered context.Context
	spent   *budget.Request
	account budget.Account // the account of the current Program
	over    *policy.Rule   // the rule that exhausted the account
	single  *policy.Rule   // the first rule that exceeded a limit of its own
	limit   error          // that limit
	rules   int            // the number of rules in all selections
	ended   time.Time      // the end of the previous rule, or the start of the evaluation

	exceptions []policy.ExceptionError // the exceptions that could not be evaluated

	entered bool // world is that of reach
	reach   world.Reach
	world   world.World
	call    *policy.Call

	looked   bool // chain is known: the controllers of the object
	chain    []map[string]any
	chainErr error
}

// program runs the rules of one Program, in order.
func (r *runner) program(out *policy.Outcome, s *policy.Selection) {
	p, before := s.Program, r.req
	broken, begun := false, false
	var rest unevaluated
	defer func() {
		rest.annotate(out)
		if begun {
			r.close(out, p)
		}
	}()
	for _, rule := range s.Rules {
		req := r.req
		if !r.in.Stages.Has(rule.Stage) || (rule.SkipOnDelete && req.Operation == policy.Delete) {
			continue
		}
		action, actionErr := policy.ActionFor(rule, req.Namespace, func() (map[string]string, error) {
			return req.NamespaceLabels(r.ctx)
		})
		if r.in.Select != nil && !r.in.Select(rule, action) {
			continue
		}
		r.enter(p.Reach())
		if !begun {
			begun = true
			r.open(p)
		}
		if r.account.Err() != nil && rest.add(rule, action, actionErr) {
			continue
		}
		yield := r.limited(req, p, rule, action)
		now := r.now()
		elapsed := now.Sub(r.ended)
		r.ended = now
		for i := range yield.Work {
			yield.Work[i].Program, yield.Work[i].Rule = p, rule
			for j := range yield.Work[i].Targets {
				target := &yield.Work[i].Targets[j]
				target.Message = value.Message(target.Message)
			}
		}
		out.Work = append(out.Work, yield.Work...) // even without a result: work for an object that no longer matches may have to be undone
		if yield.Status == policy.StatusNone {
			if yield.Object != nil {
				r.req = req.WithObject(yield.Object)
			}
			continue
		}
		if actionErr != nil {
			yield = failure("failed to find the effective failure action", actionErr)
		}
		if yield.Admitted {
			action = action&^policy.Deny | policy.Audit
		}
		if yield.Status == policy.StatusFail && action.Has(policy.Deny) && rule.AllowExisting && req.Operation == policy.Update {
			yield = r.preExisting(yield, p, rule)
		}
		if out.Results == nil {
			out.Results = make([]policy.Result, 0, r.rules) // most rules have one
		}
		if yield.Object != nil && isResize(req) {
			r.keepToResources(out, &yield, p, rule)
		}
		rest.recorded(len(out.Results), rule)
		v := record(out, policy.Result{Program: p, Rule: rule, Yield: yield, Action: action, Elapsed: elapsed})
		switch {
		case v.failed:
			broken = true
		case yield.Object != nil:
			r.req = req.WithObject(yield.Object)
		}
		if p.Settings.FailurePolicy == policy.Fail {
			out.FailurePolicy = policy.Fail
		}
		if v.failed && yield.Object != nil && rule.Stage.Has(policy.StageMutate) {
			break // the patch itself failed: there is no object for later rules
		}
		// Deferred rules are complete with any result but a skip.
		later := rule.Stage.Has(policy.StageGenerate | policy.StageMutateExisting)
		if p.Settings.ApplyOne && (v.decided || v.failed && later) {
			break
		}
	}
	if broken {
		r.req = before // a policy with an error changes nothing
	}
}

// open starts to charge rules to the account of their Program.
func (r *runner) open(p *policy.Program) {
	r.over, r.single, r.limit = nil, nil, nil
	r.spent.Open(&r.account, p, p.Namespace != "")
	if p.Namespace != "" && r.in.Pace != nil {
		r.account.Pace(r.ctx, r.in.Pace(p))
	}
}

// close stops charging, and records whether the account was exhausted, or a rule exceeded a limit of its own.
func (r *runner) close(out *policy.Outcome, p *policy.Program) {
	r.spent.Close(&r.account)
	if err := r.account.Err(); errors.Is(err, budget.ErrExhausted) && r.over != nil {
		out.Exceeded = append(out.Exceeded, policy.Exceeded{Program: p, Rule: r.over, Message: err.Error()})
	} else if r.single != nil {
		out.Exceeded = append(out.Exceeded, policy.Exceeded{Program: p, Rule: r.single, Message: r.limit.Error()})
	}
}

// enter returns the world for programs with that reach.
func (r *runner) enter(reach world.Reach) {
	if r.entered && r.reach == reach {
		return
	}
	r.entered, r.reach, r.world, r.call = true, reach, world.World{}, nil
	if r.in.Root != nil {
		r.world = r.in.Root.For(reach)
	}
}

// callOn returns a Call for rules on req, with the meter and the world of the Program. It reuses a Call within one evaluation only,
// because goroutines of a finished rule may still refer to it.
func (r *runner) callOn(req *policy.Request) *policy.Call {
	if r.call == nil || r.call.Trace != req.Trace || r.call.Images != req.Conf.Images {
		made := &struct {
			policy.Call
			env        evalenv.Env
			exceptions policy.ForExceptions
			failed     []policy.ExceptionError
		}{env: evalenv.Env{Meter: &r.meter, World: r.world, Images: req.Conf.Images, Trace: req.Trace}}
		made.Env, made.Exceptions = &made.env, &made.exceptions
		made.exceptions.Pace, made.exceptions.Errors = r.in.PaceException, &made.failed
		r.call = &made.Call
	}
	r.call.Request = req
	return r.call
}

// now returns the current time if times are measured, otherwise the zero time.
func (r *runner) now() time.Time {
	if r.in.Now == nil {
		return time.Time{}
	}
	return r.in.Now()
}

// verdict summarizes the results of one rule.
type verdict struct {
	failed  bool // some result has status error
	decided bool // some result is pass or fail
}

// record adds a result to the outcome, followed by the further results of the same evaluation.
func record(out *policy.Outcome, first policy.Result) (v verdict) {
	also := first.Also
	first.Also = nil
	add := func(r policy.Result) {
		bound(&r.Yield)
		out.Results = append(out.Results, r)
		v.failed = v.failed || r.Status == policy.StatusError
		v.decided = v.decided || r.Status == policy.StatusPass || r.Status == policy.StatusFail
	}
	add(first)
	for _, y := range also {
		add(policy.Result{Program: first.Program, Rule: first.Rule, Yield: y, Action: first.Action})
	}
	return v
}

// bound truncates the texts of a yield. All messages about a rule come from its results, so this is the only place where they are
// truncated.
func bound(y *policy.Yield) {
	y.Message, y.Path = value.Message(y.Message), value.Message(y.Path)
	y.Properties, y.Annotations = boundTexts(y.Properties), boundTexts(y.Annotations)
}

// boundTexts truncates the texts in a map, which other results of the rule may share.
func boundTexts(texts map[string]string) map[string]string {
	shared := true
	for k, v := range texts {
		if len(v) <= value.MaxMessage {
			continue
		}
		if shared {
			texts, shared = maps.Clone(texts), false
		}
		texts[k] = value.Message(v)
	}
	return texts
}

// limited evaluates a rule. A rule that verifies images and does not deny gets half of the time that is left: a registry that does not answer
// must not keep the rules after it from being evaluated.
func (r *runner) limited(req *policy.Request, p *policy.Program, rule *policy.Rule, action policy.Action) policy.Yield {
	at, ends := r.ctx.Deadline()
	if !ends || r.in.Now == nil || !rule.VerifiesImages || action.Has(policy.Deny) {
		return r.watched(req, p, rule)
	}
	outer := r.ctx
	ctx, cancel := context.WithDeadline(outer, at.Add(-at.Sub(r.in.Now())/2))
	defer cancel()
	r.ctx, r.metered = ctx, nil
	yield := r.watched(req, p, rule)
	r.ctx, r.metered = outer, nil
	return yield
}

// watched evaluates a rule and records the evaluation for metrics, traces or explanations.
func (r *runner) watched(req *policy.Request, p *policy.Program, rule *policy.Rule) policy.Yield {
	if r.in.Watch == nil {
		return r.foreseen(req, p, rule)
	}
	outer := r.ctx
	ctx, end := r.in.Watch(outer, p, rule)
	r.ctx, r.metered = ctx, nil
	yield := r.foreseen(req, p, rule)
	end(yield)
	r.ctx, r.metered = outer, nil
	return yield
}

// foreseen evaluates a rule. If data lead the rule to parts of the object that were not decoded, it evaluates the rule again with the whole
// object.
func (r *runner) foreseen(req *policy.Request, p *policy.Program, rule *policy.Rule) policy.Yield {
	yield := r.rule(req, p, rule)
	if !req.Object.Partial() || !req.Unforeseen() {
		return yield
	}
	r.req = req.WithObject(req.Object.Whole())
	return r.rule(r.req, p, rule)
}

// rule matches and evaluates one rule, and charges the cost to the account of its Program. Every failure becomes a result of status error.
func (r *runner) rule(req *policy.Request, p *policy.Program, rule *policy.Rule) (y policy.Yield) {
	defer func() {
		if v := recover(); v != nil {
			y = policy.Yield{Status: policy.StatusError, Message: fmt.Sprintf("rule %s panicked: %v", rule.Name, v)}
		}
		if err := r.meter.Settle(); err != nil {
			y = failure("failed to evaluate the rule", err) // even if the rule treated the error as something else
		}
		if r.over == nil && r.account.Err() != nil {
			r.over = rule
		}
		if err := r.meter.Exceeded(); err != nil && r.single == nil {
			r.single, r.limit = rule, err
		}
	}()
	if err := r.ctx.Err(); err != nil {
		return failure("rule was not evaluated", err)
	}
	if err := r.account.Err(); err != nil {
		return failure("rule was not evaluated", r.spentBefore(err))
	}
	if req.Trace != nil {
		req.Trace.Begin(p.Key(), rule.Name)
	}
	r.meter.Reset(r.ctx, budget.DefaultSteps, budget.DefaultBytes)
	r.meter.Charge(&r.account)
	ok, err := r.match(req, rule)
	if err != nil {
		return failure("failed to match the resource", err)
	}
	if !ok {
		return policy.Yield{}
	}
	c := r.callOn(req)
	c.Program, c.Rule, c.Plan, c.Stages = p, rule, r.in.Plan, r.in.Stages&rule.Stage
	y = rule.Eval(c)
	if len(rule.Exceptions) > 0 && (len(y.Exceptions) > 0 || fails(&y)) {
		y = r.excepted(c, y)
	}
	for _, e := range *c.Exceptions.Errors {
		r.unevaluated(e)
	}
	*c.Exceptions.Errors = nil
	return y
}

// unevaluated records an exception that could not be evaluated, for the first rule only.
func (r *runner) unevaluated(e policy.ExceptionError) {
	for i := range r.exceptions {
		if r.exceptions[i].Exception == e.Exception {
			return
		}
	}
	e.Message = value.Message(e.Message)
	r.exceptions = append(r.exceptions, e)
}

// errBefore is short, since all remaining rules report it.
var errBefore = fmt.Errorf("%w by the rules before it", budget.ErrExhausted)

// spentBefore returns the error of a rule that is not evaluated: the first such rule gets the whole text of err.
func (r *runner) spentBefore(err error) error {
	if r.over == nil || !errors.Is(err, budget.ErrExhausted) {
		return err
	}
	return errBefore
}

// match reports whether the rule matches the request. The cost counts for the policy, not for the rule.
func (r *runner) match(req *policy.Request, rule *policy.Rule) (bool, error) {
	if rule.MatchSteps == 0 {
		return rule.Match(r.ctx, req)
	}
	if err := r.meter.Beside(int64(rule.MatchSteps)); err != nil {
		return false, err
	}
	if r.metered == nil {
		r.metered = budget.With(r.ctx, &r.meter)
	}
	return rule.Match(r.metered, req)
}

// textNotKnown is appended to the message of a violation that is not tolerated.
const textNotKnown = " (it is not known whether the old object violated the rule: "

// preExisting evaluates a violation in an update: a violation that the old object already had does not block. The old object is evaluated
// as if a user that no rule matches had just created it. Only a plain failure counts: an error does not prove a violation, and otherwise a
// user could first store an object that causes an error and then any other object.
func (r *runner) preExisting(y policy.Yield, p *policy.Program, rule *policy.Rule) policy.Yield {
	switch old := r.rule(r.req.CreationOfOld(), p, rule); old.Status {
	case policy.StatusFail:
		return policy.Yield{Status: policy.StatusSkip, Message: policy.TextPreExisting}
	case policy.StatusError:
		y.Message += textNotKnown + old.Message + ")"
		return y
	default:
		return y
	}
}

// failure returns a result of status error with the attempted action. For a deadline it adds what the error means.
func failure(attempt string, err error) policy.Yield {
	if errors.Is(err, context.DeadlineExceeded) {
		return policy.Yield{Status: policy.StatusError, Message: attempt + ": the time for the evaluation is over", Unknown: true}
	}
	return policy.Yield{Status: policy.StatusError, Message: attempt + ": " + err.Error()}
}
