package engine

import (
	"context"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// several returns a rule that yields one result for each status, the first of them with an object.
func several(statuses ...policy.Status) func(*policy.Call) policy.Yield {
	return func(*policy.Call) policy.Yield {
		y := policy.Yield{Status: statuses[0], Message: "0", Object: value.Of(map[string]any{"v": "made"})}
		for i, s := range statuses[1:] {
			y.Also = append(y.Also, policy.Yield{Status: s, Message: string(rune('1' + i))})
		}
		return y
	}
}

// TestSeveralResults tests that a rule may yield several results, each of which counts.
func TestSeveralResults(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []policy.Status
		one      bool
		want     string
		changed  bool
		allowed  bool
	}{
		{"all pass", []policy.Status{policy.StatusPass, policy.StatusPass}, false, "a=pass a=pass b=pass", true, true},
		{"the second fails", []policy.Status{policy.StatusPass, policy.StatusFail}, false, "a=pass a=fail b=pass", true, false},
		{"the second is an error", []policy.Status{policy.StatusPass, policy.StatusError}, false, "a=pass a=error b=pass", false, false},
		{"applyRules: One", []policy.Status{policy.StatusSkip, policy.StatusPass}, true, "a=skip a=pass", true, true},
		{"applyRules: One, nothing decided", []policy.Status{policy.StatusSkip, policy.StatusSkip}, true, "a=skip a=skip b=pass", true, true},
	} {
		s := program(rule("a", several(c.statuses...)), rule("b", yields(policy.StatusPass, "")))
		s.Program.Settings.ApplyOne = c.one
		out := eval(request(policy.Create), s)
		if got := statuses(out); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		object, err := out.Object.Map()
		if err != nil || (object["v"] == "made") != c.changed {
			t.Errorf("%s: object %v, %v", c.name, object, err)
		}
		if d := Decide(&out, ValidateWording); d.Allowed != c.allowed {
			t.Errorf("%s: %+v", c.name, d)
		}
		for _, r := range out.Results {
			if r.Also != nil {
				t.Errorf("%s: a result holds others", c.name)
			}
		}
	}
}

// TestStagesOfTheScope tests that a rule with several stages knows which of them are evaluated.
func TestStagesOfTheScope(t *testing.T) {
	const both = policy.StageVerifyImages | policy.StageValidate
	for stages, want := range map[policy.Stage]policy.Stage{
		policy.StageValidate:                          policy.StageValidate,
		policy.StageMutate | policy.StageVerifyImages: policy.StageVerifyImages,
		both: both,
		policy.StageMutate | policy.StageMutateExisting: 0,
	} {
		var got policy.Stage
		r := rule("a", func(c *policy.Call) policy.Yield {
			got = c.Stages
			return policy.Yield{}
		})
		r.Stage = both
		Eval(context.Background(), Input{Selections: []policy.Selection{program(r)}, Request: request(policy.Create), Stages: stages})
		if got != want {
			t.Errorf("stages %b: the rule saw %b, want %b", stages, got, want)
		}
	}
}

// TestWarnOfAResult tests that a result of any status may request a warning, even a skip.
func TestWarnOfAResult(t *testing.T) {
	s := program(rule("a", func(*policy.Call) policy.Yield {
		return policy.Yield{Status: policy.StatusSkip, Message: "skipped", Warn: true, Also: []policy.Yield{{Status: policy.StatusSkip, Message: "quiet"}}}
	}))
	out := eval(request(policy.Create), s)
	if d := Decide(&out, ValidateWording); len(d.Warnings) != 1 || d.Warnings[0] != "policy p.a: skipped" {
		t.Errorf("warnings: %q", d.Warnings)
	}
}
