package engine

import (
	"context"
	"errors"
	"maps"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// chain answers lookups of the controllers of an object, and counts them.
type chain struct {
	gets int
	fail bool
}

func (c *chain) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	c.gets++
	if c.fail {
		return nil, errors.New("no answer")
	}
	m := map[string]any{"name": r.Name, "uid": r.Name}
	if r.Kind.Kind == "ReplicaSet" {
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}}
	}
	return map[string]any{"apiVersion": "apps/v1", "kind": r.Kind.Kind, "metadata": m, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"hostPID": true}}}}, nil
}

// Controllers are looked up only after a failure, only for exceptions that cover workloads, and once for all rules.
func TestControllersAreLookedUpAfterAFailure(t *testing.T) {
	for _, c := range []struct {
		what     string
		status   policy.Status
		workload bool
		needs    policy.Needs
		fail     bool
		hostPID  bool
		gets     int
		want     string
	}{
		{"a pass", policy.StatusPass, true, policy.Needs{}, false, true, 0, "a=pass b=pass"},
		{"a failure without such an exception", policy.StatusFail, false, policy.Needs{}, false, true, 0, "a=fail b=fail"},
		{"a failure", policy.StatusFail, true, policy.Needs{}, false, true, 2, "a=skip b=skip"},
		{"a failure of another content", policy.StatusFail, true, policy.Needs{}, false, false, 2, "a=fail b=fail"},
		{"a controller that cannot be read", policy.StatusFail, true, policy.Needs{}, true, true, 1, "a=fail b=fail"},
		{"a rule about the requester", policy.StatusFail, true, policy.Needs{User: true}, false, true, 0, "a=fail b=fail"},
		{"an error", policy.StatusError, true, policy.Needs{}, false, true, 0, "a=error b=error"},
	} {
		e := &policy.Exception{Name: "e", Workload: c.workload, Background: true}
		made := func(name string) *policy.Rule {
			r := rule(name, func(call *policy.Call) policy.Yield {
				if len(call.ForExceptions().Owners) > 0 {
					return policy.Yield{Status: policy.StatusSkip, Exceptions: []*policy.Exception{e}}
				}
				return policy.Yield{Status: c.status}
			})
			r.Exceptions, r.Needs = []*policy.Exception{e}, c.needs
			return r
		}
		req := request(policy.Create)
		req.Object = nil
		req = req.WithObject(value.Of(map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "web-1-x", "namespace": "ns", "ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": true}}},
			"spec":     map[string]any{"hostPID": c.hostPID},
		}))
		objects := &chain{fail: c.fail}
		s := program(made("a"), made("b"))
		out := Eval(t.Context(), Input{Selections: []policy.Selection{s}, Request: req, Stages: policy.StageValidate, Root: world.RootFunc(func(world.Reach) world.World {
			return world.World{Objects: objects.Get}
		})})
		if got := statuses(out); got != c.want || objects.gets != c.gets {
			t.Errorf("%s: %s with %d lookups, want %s with %d", c.what, got, objects.gets, c.want, c.gets)
		}
		if c.fail != (len(out.ExceptionErrors) == 1) {
			t.Errorf("%s: %v", c.what, out.ExceptionErrors)
		}
	}
}

// A scan evaluates exempt objects without exceptions, too, if the settings say so.
func TestCompareExceptions(t *testing.T) {
	e := &policy.Exception{Name: "e"}
	r := rule("r", func(c *policy.Call) policy.Yield {
		if len(c.Rule.Exceptions) > 0 {
			return policy.Yield{Status: policy.StatusSkip, Exceptions: c.Rule.Exceptions}
		}
		return policy.Yield{Status: policy.StatusFail}
	})
	r.Exceptions = []*policy.Exception{e}
	for _, origin := range []policy.RequestOrigin{policy.FromAdmission, policy.FromScan} {
		for _, compare := range []bool{false, true} {
			req := request(policy.Create)
			req.Origin, req.Conf.CompareExceptions = origin, compare
			out := eval(req, program(r))
			want := ""
			if compare && origin == policy.FromScan {
				want = "fail"
			}
			if got := out.Results[0]; got.Status != policy.StatusSkip || got.Properties[policy.PropertyWithoutException] != want {
				t.Errorf("origin %d, compare %v: %s %v", origin, compare, got.Status, got.Properties)
			}
		}
	}
}

// purse counts what is charged to a namespace.
type purse struct {
	steps map[string]int64
	of    string
	empty bool
}

func (p purse) Pace(_ context.Context, steps int64) error {
	p.Spend(steps)
	if p.empty {
		return budget.ErrExhausted
	}
	return nil
}
func (p purse) Spend(steps int64) { p.steps[p.of] += steps }
func (p purse) Done()             { p.steps["done "+p.of]++ }

// T8: further evaluations for exceptions are charged to the namespace of the policy, and those of a cluster-wide policy to the namespaces of the
// exceptions. A namespace without a share has no exemptions; those of others hold, and no result of the rule changes.
func TestT8FurtherEvaluationsAreCharged(t *testing.T) {
	const cost = 5000
	exception := func(namespace string, audit bool) *policy.Exception {
		return &policy.Exception{Namespace: namespace, Name: "e", Workload: !audit, Audit: audit, Background: true}
	}
	for _, c := range []struct {
		what, policy, empty string
		exceptions          []*policy.Exception
		exempts             string // the namespace whose exception exempts the Pod
		want                string
		steps               map[string]int64
	}{
		{"a namespaced policy: the rule, and two further evaluations", "a", "", []*policy.Exception{exception("a", false), exception("a", true)}, "", "r=fail", map[string]int64{"policy a": 3 * cost, "done policy a": 1}},
		{"a cluster-wide policy", "", "", []*policy.Exception{exception("a", false), exception("a", true)}, "", "r=fail", map[string]int64{"a": 2 * cost, "done a": 2}},
		{"exceptions of two namespaces: each pays", "", "", []*policy.Exception{exception("a", false), exception("b", false)}, "b", "r=skip", map[string]int64{"a": cost, "b": cost, "done a": 1, "done b": 1}},
		{"one of them has no share", "", "a", []*policy.Exception{exception("a", false), exception("b", false)}, "b", "r=skip", map[string]int64{"a": 0, "b": cost, "done a": 1, "done b": 1}},
		{"none has a share", "", "a", []*policy.Exception{exception("a", false)}, "a", "r=fail", map[string]int64{"a": 0, "done a": 1}},
		{"the namespace that an administrator named", "", "", []*policy.Exception{exception("admin", false)}, "admin", "r=skip", map[string]int64{}},
	} {
		steps := map[string]int64{}
		r := rule("r", func(call *policy.Call) policy.Yield {
			_ = call.Meter.Step(cost)
			for _, e := range call.Rule.Exceptions {
				if e.Namespace == c.exempts && len(call.ForExceptions().Owners) > 0 {
					return policy.Yield{Status: policy.StatusSkip, Exceptions: []*policy.Exception{e}}
				}
			}
			return policy.Yield{Status: policy.StatusFail}
		})
		r.Exceptions = c.exceptions
		req := request(policy.Create).WithObject(value.Of(map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "web-1-x", "namespace": "ns", "ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": true}}},
			"spec":     map[string]any{"hostPID": true},
		}))
		s := program(r)
		s.Program.Namespace = c.policy
		out := Eval(t.Context(), Input{
			Selections: []policy.Selection{s}, Request: req, Stages: policy.StageValidate,
			Root: world.RootFunc(func(world.Reach) world.World { return world.World{Objects: (&chain{}).Get} }),
			Pace: func(p *policy.Program) budget.Pacer { return purse{steps: steps, of: "policy " + p.Namespace} },
			PaceException: func(e *policy.Exception, _ *policy.Request) budget.Pacer {
				if e.Namespace == "admin" {
					return nil
				}
				return purse{steps: steps, of: e.Namespace, empty: e.Namespace == c.empty}
			},
		})
		if got := statuses(out); got != c.want || !maps.Equal(steps, c.steps) {
			t.Errorf("%s: %s and %v, want %s and %v", c.what, got, steps, c.want, c.steps)
		}
		if (c.empty != "") != (len(out.ExceptionErrors) == 1) {
			t.Errorf("%s: not evaluated: %v", c.what, out.ExceptionErrors)
		}
	}
}
