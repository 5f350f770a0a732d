package engine

import (
	"context"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// A result that depends on those of other rules is computed after all are evaluated, including the results of earlier evaluations. A panic
// is an error of the rule.
func TestSettle(t *testing.T) {
	waits := rule("waits", func(*policy.Call) policy.Yield {
		return policy.Yield{Status: policy.StatusPass, Signatures: &policy.Signatures{Settle: func(all []policy.Result) policy.Yield {
			for i := range all {
				if s := all[i].Signatures; s != nil && s.Images["x"] {
					return policy.Yield{Status: policy.StatusPass, Message: "verified by " + all[i].Rule.Name}
				}
			}
			return policy.Yield{Status: policy.StatusFail}
		}}}
	})
	panics := rule("panics", func(*policy.Call) policy.Yield {
		return policy.Yield{Status: policy.StatusPass, Signatures: &policy.Signatures{Settle: func([]policy.Result) policy.Yield { panic("no") }}}
	})
	verifies := rule("verifies", func(*policy.Call) policy.Yield {
		return policy.Yield{Status: policy.StatusPass, Signatures: &policy.Signatures{Images: map[string]bool{"x": true}}}
	})
	req := request(policy.Create)
	if out := eval(req, program(waits), program(panics)); statuses(out) != "waits=fail panics=error" {
		t.Error(statuses(out))
	}
	if out := eval(req, program(waits), program(verifies)); statuses(out) != "waits=pass verifies=pass" || out.Results[0].Message != "verified by verifies" {
		t.Errorf("%s %+v", statuses(out), out.Results)
	}
	before := eval(req, program(verifies))
	out := Eval(context.Background(), Input{Selections: []policy.Selection{program(waits)}, Request: req, Stages: policy.StageValidate, Before: before.Results})
	if statuses(out) != "waits=pass" {
		t.Error(statuses(out))
	}
}

// A rule may change the object without a result.
func TestChangeWithoutResult(t *testing.T) {
	changes := rule("changes", func(*policy.Call) policy.Yield {
		return policy.Yield{Object: value.Of(map[string]any{"v": "changed"})}
	})
	reads := rule("reads", func(c *policy.Call) policy.Yield {
		object, _ := c.Request.Subject()
		return policy.Yield{Status: policy.StatusPass, Message: object["v"].(string)}
	})
	out := eval(request(policy.Create), program(changes), program(reads))
	if statuses(out) != "reads=pass" || out.Results[0].Message != "changed" {
		t.Errorf("%s %+v", statuses(out), out.Results)
	}
}

// An unknown answer does not deny with failurePolicy Ignore; other errors have the effects of a failure.
func TestUnknown(t *testing.T) {
	for _, c := range []struct {
		unknown bool
		failure policy.FailurePolicy
		action  policy.Action
		allowed bool
	}{
		{true, policy.Fail, policy.Deny, false}, {true, policy.Ignore, policy.Deny, true}, {true, policy.Fail, policy.Audit, true},
		{false, policy.Fail, policy.Deny, false}, {false, policy.Ignore, policy.Deny, false},
	} {
		r := rule("r", func(*policy.Call) policy.Yield { return policy.Yield{Status: policy.StatusError, Unknown: c.unknown} })
		r.OnError, r.Action.Default = policy.ErrorByAction, c.action
		s := program(r)
		s.Program.Settings.FailurePolicy = c.failure
		out := eval(request(policy.Create), s)
		if d := Decide(&out, ValidateWording); d.Allowed != c.allowed {
			t.Errorf("%+v: allowed is %v", c, d.Allowed)
		}
	}
}
