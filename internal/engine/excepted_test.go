package engine

import (
	"context"
	"errors"
	"testing"

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
				if len(call.Owners) > 0 {
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
