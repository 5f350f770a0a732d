package admission

import (
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

// A rule is evaluated before the answer if it may deny or warn, and after the answer if it may allow.
func TestPlan(t *testing.T) {
	somewhere := policy.ActionPlan{Default: policy.Audit, Overrides: []policy.ActionOverride{{Action: policy.Deny, Namespaces: []string{"prod"}}}}
	for name, c := range map[string]struct {
		action               policy.ActionPlan
		emitWarning          bool
		enforce, audit, warn bool
	}{
		"no effect":                {policy.ActionPlan{}, false, false, true, false},
		"audit":                    {policy.ActionPlan{Default: policy.Audit}, false, false, true, false},
		"audit, with emitWarning":  {policy.ActionPlan{Default: policy.Audit}, true, false, true, true},
		"audit and warn":           {policy.ActionPlan{Default: policy.Audit | policy.Warn}, false, false, true, true},
		"deny":                     {policy.ActionPlan{Default: policy.Deny}, false, true, false, false},
		"deny, with emitWarning":   {policy.ActionPlan{Default: policy.Deny}, true, true, false, false},
		"deny and warn":            {policy.ActionPlan{Default: policy.Deny | policy.Warn}, false, true, false, false},
		"audit, in a place denied": {somewhere, false, true, true, false},
	} {
		p := &policy.Program{Settings: policy.Settings{EmitWarning: c.emitWarning}}
		r := &policy.Rule{Stage: policy.StageValidate, Effect: policy.Effect{Action: c.action}}
		got := planOf([]policy.Selection{{Program: p, Rules: []*policy.Rule{r}}}, policy.StageValidate)
		selects := got.rest()
		for _, shared := range []bool{false, true} {
			r.Shared = shared
			if early, later := enforcing(r, policy.Audit), selects(r, policy.Audit); later == (c.enforce && early) {
				t.Errorf("%s: a shared rule (%v) is evaluated never, or twice", name, shared)
			}
		}
		if got.enforce != c.enforce || got.audit != c.audit || (len(got.informing) == 1) != c.warn {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
