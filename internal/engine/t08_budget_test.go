package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/policy"
)

// taking returns a rule that takes steps, and hides the error of its meter.
func taking(name string, steps int) *policy.Rule {
	return rule(name, func(s *policy.Call) policy.Yield {
		_ = s.Env.Meter.Step(steps)
		return policy.Yield{Status: policy.StatusPass}
	})
}

// T8: rules beyond the budget of a policy, and policies beyond the budget of a request, are errors, even if the rule hides the error of its
// meter. Namespaced policies do not use the budget of cluster-wide policies.
func TestT8Accounts(t *testing.T) {
	of := func(name, namespace string, rules int, steps int) policy.Selection {
		p := &policy.Program{Name: name, Namespace: namespace}
		for i := range rules {
			p.Rules = append(p.Rules, taking(name+string(rune('a'+i)), steps))
		}
		return policy.Selection{Program: p, Rules: p.Rules}
	}
	passed := func(out *policy.Outcome, name string) (n int) {
		for _, r := range out.Results {
			if r.Program.Name == name && r.Status == policy.StatusPass {
				n++
			} else if r.Program.Name == name && !strings.Contains(r.Message, "budget exhausted") {
				t.Errorf("%s: %s: %s", r.Rule.Name, r.Status, r.Message)
			}
		}
		return n
	}
	fit := budget.NamespacedPolicySteps / budget.DefaultSteps
	// Each namespaced policy may use half of the budget of all of them; the rule that exceeds it counts, too.
	one, two, three := of("one", "ns", 20, budget.DefaultSteps), of("two", "ns", 20, budget.DefaultSteps), of("three", "ns", 20, budget.DefaultSteps)
	guard := of("guard", "", 20, budget.DefaultSteps)
	out := eval(request(policy.Create), one, two, three, guard)
	for name, want := range map[string]int{"one": fit, "two": fit - 1, "three": 0, "guard": 20} {
		if n := passed(&out, name); n != want {
			t.Errorf("%s: %d rules passed, want %d", name, n, want)
		}
	}
	if len(out.Exceeded) != 3 || out.Exceeded[0].Program != one.Program || out.Exceeded[0].Rule != one.Rules[fit] {
		t.Errorf("exceeded: %+v, want the three policies, the first at its rule %d", out.Exceeded, fit)
	}

	// Evaluations of one request share a budget: the second has only the remainder.
	spent := budget.NewRequest()
	shared := func() policy.Outcome {
		return Eval(context.Background(), Input{Selections: []policy.Selection{of("again", "ns", 0, 0), {Program: one.Program, Rules: one.Rules[:fit]}}, Request: request(policy.Create), Stages: policy.StageValidate, Spent: spent})
	}
	first, second := shared(), shared()
	if a, b := passed(&first, "one"), passed(&second, "one"); a != fit || b != 0 {
		t.Errorf("%d rules passed in the first evaluation and %d in the second, want %d and 0", a, b, fit)
	}

	// The remaining rules share a result for each action: one enforces, and auditing rules do not hide its error.
	audited := of("audited", "ns", 400, budget.DefaultSteps)
	for i, r := range audited.Rules {
		if i != 399 {
			r.Action.Default = policy.Audit
		}
	}
	out = eval(request(policy.Create), audited)
	if n := len(out.Results); n != fit+3 {
		t.Fatalf("%d results, want %d: those that passed, the one that exhausted the budget, and one for each action", n, fit+3)
	}
	if r := out.Results[fit+1]; r.Action != policy.Audit || !strings.Contains(r.Message, fmt.Sprintf("%d more rules that were not evaluated", 399-fit-2)) {
		t.Errorf("the result of the rules that are left: %v %q", r.Action, r.Message)
	}
	if r := out.Results[fit+2]; r.Action != policy.Deny || r.Rule != audited.Rules[399] || r.Status != policy.StatusError {
		t.Errorf("the result of the enforcing rule: %v %v %q", r.Action, r.Status, r.Message)
	}

	// The budget of cluster-wide policies is enough for hundreds of large rules.
	many := of("many", "", 400, 200_000)
	if out = eval(request(policy.Create), many); passed(&out, "many") != 400 || len(out.Exceeded) != 0 {
		t.Errorf("400 rules of 200,000 steps: %d passed", passed(&out, "many"))
	}
}

// refusing is a pacer that admits no evaluation.
type refusing struct{ done *int }

func (refusing) Pace(context.Context, int64) error { return budget.ErrExhausted }
func (refusing) Spend(int64)                       {}
func (r refusing) Done()                           { *r.done++ }

// T8: a namespaced policy without a share of the processor is an error; cluster-wide policies are not paced.
func TestT8Paced(t *testing.T) {
	theirs := &policy.Program{Name: "theirs", Namespace: "ns", Rules: []*policy.Rule{taking("r", 1), taking("s", 1)}}
	ours := &policy.Program{Name: "ours", Rules: []*policy.Rule{taking("r", 1)}}
	done := 0
	out := Eval(context.Background(), Input{
		Selections: []policy.Selection{{Program: ours, Rules: ours.Rules}, {Program: theirs, Rules: theirs.Rules}},
		Request:    request(policy.Create), Stages: policy.StageValidate,
		Pace: func(p *policy.Program) budget.Pacer {
			if p != theirs {
				t.Errorf("%s is paced", p.Name)
			}
			return refusing{&done}
		},
	})
	if got, want := statuses(out), "r=pass r=error"; got != want || !strings.HasSuffix(out.Results[1].Message, "(the policy has 1 more rules that were not evaluated)") {
		t.Errorf("%s, want %s", got, want)
	}
	if done != 1 || len(out.Exceeded) != 1 || out.Exceeded[0].Program != theirs {
		t.Errorf("done %d times, exceeded: %+v", done, out.Exceeded)
	}
}
