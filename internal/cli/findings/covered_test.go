package findings

import (
	"context"
	"errors"
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

// An object is counted if a rule selects it. One that no rule is known to select is counted apart if a rule or condition fails.
func TestCovered(t *testing.T) {
	rule := func(ok bool, err error) *policy.Rule {
		return &policy.Rule{Matching: policy.Matching{Match: func(context.Context, *policy.Request) (bool, error) { return ok, err }}}
	}
	yes, no, fails := rule(true, nil), rule(false, nil), rule(false, errors.New("no labels"))
	condition := func(ok bool, err error) *policy.Exception {
		return &policy.Exception{Conditions: func(*policy.Call, policy.Variables) (bool, error) { return ok, err }}
	}
	for _, c := range []struct {
		name      string
		exception *policy.Exception
		rules     []*policy.Rule
		want      string
	}{
		{"a rule", &policy.Exception{}, []*policy.Rule{yes}, "it selects 1 object of the cluster"},
		{"no rule", &policy.Exception{}, []*policy.Rule{no}, "it selects 0 objects of the cluster"},
		{"a rule fails", &policy.Exception{}, []*policy.Rule{no, fails}, "it selects 0 objects of the cluster; of 1 other this is not known: no labels"},
		{"a rule beside one that fails", &policy.Exception{}, []*policy.Rule{fails, yes}, "it selects 1 object of the cluster"},
		{"a condition", condition(true, nil), []*policy.Rule{yes}, "it selects 1 object of the cluster"},
		{"a condition that is false", condition(false, nil), []*policy.Rule{yes}, "it selects 0 objects of the cluster"},
		{"a condition that fails", condition(false, errors.New("no such key")), []*policy.Rule{yes, no}, "it selects 0 objects of the cluster; of 1 other this is not known: no such key"},
	} {
		var n covered
		n.add(selects(t.Context(), c.exception, c.rules, map[*policy.Rule]*policy.Program{}, &policy.Request{}))
		if got := n.String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
