package engine

import (
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

func TestMutateWording(t *testing.T) {
	p, q := &policy.Program{Name: "p"}, &policy.Program{Name: "q"}
	p.Settings.EmitWarning = true
	result := func(p *policy.Program, name string, s policy.Status, message string) policy.Result {
		return policy.Result{Program: p, Rule: &policy.Rule{Name: name}, Yield: policy.Yield{Status: s, Message: message}}
	}
	results := []policy.Result{
		result(p, "a", policy.StatusPass, "mutated Pod/x"),
		result(q, "b", policy.StatusError, "failed to patch resource: why"),
		result(p, "c", policy.StatusError, "other"),
	}
	d := Decide(&policy.Outcome{Results: results, FailurePolicy: policy.Fail}, MutateWording)
	if want := "mutation policy q error: failed to apply policy q rules [b: failed to patch resource: why]"; d.Allowed || d.Message != want {
		t.Errorf("%+v", d)
	}
	d = Decide(&policy.Outcome{Results: results, FailurePolicy: policy.Ignore}, MutateWording)
	if !d.Allowed || len(d.Warnings) != 2 || d.Warnings[0] != "policy p.a: mutated Pod/x" {
		t.Errorf("%+v", d)
	}
	d = Decide(&policy.Outcome{Results: []policy.Result{result(q, "b", policy.StatusSkip, "no patches applied")}, FailurePolicy: policy.Fail}, MutateWording)
	if !d.Allowed || len(d.Warnings) != 0 {
		t.Errorf("%+v", d)
	}
}
