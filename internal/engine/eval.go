package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/jmespath"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// Input is what one evaluation needs.
type Input struct {
	// Selections are the Programs to run, in order, each with those of its rules that may match.
	Selections []policy.Selection
	Request    *policy.Request
	// Stages are the stages of the rules to run; others are passed over.
	Stages policy.Stage
	// Plan asks rules for deferred work to say exactly what is to be done (policy.Work.Planned).
	Plan bool
	// Root makes the world that each Program sees. A nil Root offers nothing.
	Root world.Root
	// Select, when set, narrows the rules by their effective action for the request's namespace: the enforcing ones
	// are answered for, the auditing ones are run after the answer.
	Select func(*policy.Rule, policy.Action) bool
	// Now is the clock that measures Result.Elapsed; nil measures nothing.
	Now func() time.Time
	// Watch is called before each rule, may give it a context of its own, and returns what is called with its yield (of
	// no status when the rule does not match); nil watches nothing.
	Watch func(context.Context, *policy.Program, *policy.Rule) (context.Context, func(policy.Yield))
}

// Eval runs the rules of in.Selections that match in.Request, in order, and returns their results. Every rule sees the
// object as the rules before it left it; a Program with an error among its results changes nothing. Eval never panics
// and returns soon after ctx is done: what was not evaluated by then has status error.
func Eval(ctx context.Context, in Input) policy.Outcome {
	out := policy.Outcome{Request: in.Request, FailurePolicy: policy.Ignore}
	run := runs.Get().(*runner)
	defer runs.Put(run)
	run.ctx, run.in, run.req = ctx, in, in.Request
	run.rules = 0
	for i := range in.Selections {
		run.rules += len(in.Selections[i].Rules)
	}
	run.ended = run.now()
	for i := range in.Selections {
		run.program(&out, &in.Selections[i])
	}
	out.Object = run.req.Object
	run.ctx, run.in, run.req = nil, Input{}, nil
	run.entered, run.world, run.env = false, world.World{}, nil
	return out
}

// runner holds what the rules of one evaluation share; it is reused, since a review has tens of rules.
type runner struct {
	ctx   context.Context
	in    Input
	req   *policy.Request // with the object as mutated so far
	meter budget.Meter
	rules int       // of all selections
	ended time.Time // the rule before, or the evaluation began

	entered bool // world is that of reach
	reach   world.Reach
	world   world.World
	env     *jmespath.Env
}

var runs = sync.Pool{New: func() any { return new(runner) }}

// program runs the rules of one Program, in order.
func (r *runner) program(out *policy.Outcome, s *policy.Selection) {
	p, before := s.Program, r.req
	broken := false
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
		yield := r.watched(req, p, rule)
		now := r.now()
		elapsed := now.Sub(r.ended)
		r.ended = now
		for i := range yield.Work {
			yield.Work[i].Program, yield.Work[i].Rule = p, rule
		}
		out.Work = append(out.Work, yield.Work...) // also without a result: what no longer matches may have to be undone
		if yield.Status == policy.StatusNone {
			continue
		}
		if actionErr != nil {
			yield = failure("failed to find the effective failure action", actionErr)
		}
		if yield.Status == policy.StatusFail && action == policy.Enforce && rule.AllowExisting && req.Operation == policy.Update {
			yield = r.preExisting(yield, p, rule)
		}
		if out.Results == nil {
			out.Results = make([]policy.Result, 0, r.rules) // mostly each rule has one
		}
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
			break // the patch itself failed: there is no object for the rules after it
		}
		// What is carried out later ends with any result but a skip (language reference §3.4).
		later := rule.Stage.Has(policy.StageGenerate | policy.StageMutateExisting)
		if p.Settings.ApplyOne && (v.decided || v.failed && later) {
			break
		}
	}
	if broken {
		r.req = before // nothing of a policy that could not do all of its work is kept
	}
}

// enter makes the world that programs of that reach see.
func (r *runner) enter(reach world.Reach) {
	if r.entered && r.reach == reach {
		return
	}
	r.entered, r.reach, r.world, r.env = true, reach, world.World{}, nil
	if r.in.Root != nil {
		r.world = r.in.Root.For(reach)
	}
}

// envOf is the Env for rules on req. It is made anew where another one is asked for, and never used for another evaluation:
// a Scope that outlived its rule would be found there.
func (r *runner) envOf(req *policy.Request) *jmespath.Env {
	if r.env == nil || r.env.Trace != req.Trace || r.env.Images != req.Conf.Images {
		r.env = &jmespath.Env{Meter: &r.meter, World: r.world, Images: req.Conf.Images, Trace: req.Trace}
	}
	return r.env
}

// now is the time where somebody measures, else no time at all.
func (r *runner) now() time.Time {
	if r.in.Now == nil {
		return time.Time{}
	}
	return r.in.Now()
}

// verdict is what the results of one rule have in common.
type verdict struct {
	failed  bool // some result has status error
	decided bool // some result says pass or fail
}

// record adds a result to the outcome, and after it the further ones of the same evaluation.
func record(out *policy.Outcome, first policy.Result) (v verdict) {
	also := first.Also
	first.Also = nil
	add := func(r policy.Result) {
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

// watched is rule, under the eyes of whoever watches.
func (r *runner) watched(req *policy.Request, p *policy.Program, rule *policy.Rule) policy.Yield {
	if r.in.Watch == nil {
		return r.foreseen(req, p, rule)
	}
	outer := r.ctx
	ctx, end := r.in.Watch(outer, p, rule)
	r.ctx = ctx
	yield := r.foreseen(req, p, rule)
	end(yield)
	r.ctx = outer
	return yield
}

// foreseen is rule, done again with the whole object when data made it ask for what nobody expected it to read.
func (r *runner) foreseen(req *policy.Request, p *policy.Program, rule *policy.Rule) policy.Yield {
	yield := r.rule(req, p, rule)
	if !req.Object.Partial() || !req.Unforeseen() {
		return yield
	}
	r.req = req.WithObject(req.Object.Whole())
	return r.rule(r.req, p, rule)
}

// rule matches and evaluates one rule. Whatever goes wrong in it becomes a result of status error.
func (r *runner) rule(req *policy.Request, p *policy.Program, rule *policy.Rule) (y policy.Yield) {
	defer func() {
		if v := recover(); v != nil {
			y = policy.Yield{Status: policy.StatusError, Message: fmt.Sprintf("rule %s panicked: %v", rule.Name, v)}
		}
	}()
	if err := r.ctx.Err(); err != nil {
		return failure("rule was not evaluated", err)
	}
	if req.Trace != nil {
		req.Trace.Begin(p.Key(), rule.Name)
	}
	ok, err := rule.Match(r.ctx, req)
	if err != nil {
		return failure("failed to match the resource", err)
	}
	if !ok {
		return policy.Yield{}
	}
	r.meter.Reset(r.ctx, budget.DefaultSteps, budget.DefaultBytes)
	scope := policy.NewScope(r.envOf(req), req, p, rule)
	scope.Plan = r.in.Plan
	scope.Stages = r.in.Stages & rule.Stage
	return rule.Eval(scope)
}

// Texts of the language reference §3.6.
const (
	textPreExisting = "skipping the rule evaluation as pre-existing violations are allowed"
	textOldObject   = "failed to validate old object"
)

// preExisting judges a violation of an update: what the old object already violated does not block. The old object is
// judged as if a user whom nothing matches had just created it.
func (r *runner) preExisting(y policy.Yield, p *policy.Program, rule *policy.Rule) policy.Yield {
	switch r.rule(r.req.CreationOfOld(), p, rule).Status {
	case policy.StatusFail:
		return policy.Yield{Status: policy.StatusSkip, Message: textPreExisting}
	case policy.StatusError:
		return policy.Yield{Status: policy.StatusSkip, Message: textOldObject}
	default:
		return y
	}
}

// failure is a result of status error. The user sees what was attempted and, for a deadline, what it means.
func failure(attempt string, err error) policy.Yield {
	if errors.Is(err, context.DeadlineExceeded) {
		return policy.Yield{Status: policy.StatusError, Message: attempt + ": the time for the evaluation is over"}
	}
	return policy.Yield{Status: policy.StatusError, Message: attempt + ": " + err.Error()}
}
