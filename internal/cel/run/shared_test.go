package run

import (
	"fmt"
	"runtime"
	"testing"

	"ephor.invalid/ephor/internal/cel/env"
)

// Equal expressions share one plan if they have the same variables in the same environment. Plans that no expression uses are removed.
func TestSharedPlans(t *testing.T) {
	compiled := func(d env.Declarations, variable, expression string) *planned {
		c := newRule(t, d)
		if variable != "" {
			c.variable("v", variable)
		}
		x, _ := c.expression(expression)
		return x.planned
	}
	one := compiled(env.Declarations{Kind: env.Validating}, "object.a", "variables.v == object.b")
	for name, c := range map[string]struct {
		other *planned
		same  bool
	}{
		"equal":               {compiled(env.Declarations{Kind: env.Validating}, "object.a", "variables.v == object.b"), true},
		"another variable":    {compiled(env.Declarations{Kind: env.Validating}, "object.c", "variables.v == object.b"), false},
		"another expression":  {compiled(env.Declarations{Kind: env.Validating}, "object.a", "variables.v == object.c"), false},
		"another environment": {compiled(env.Declarations{Kind: env.Mutating}, "object.a", "variables.v == object.b"), false},
	} {
		if (one == c.other) != c.same {
			t.Errorf("%s: shared is %v", name, !c.same)
		}
	}
	for i := range 20 * minPlans {
		compiled(env.Declarations{Kind: env.Validating}, "", fmt.Sprint("object.n == ", i))
		if i%minPlans == 0 {
			runtime.GC()
		}
	}
	if n := len(plans.of); n > 8*minPlans {
		t.Errorf("%d plans are kept", n)
	}
	runtime.KeepAlive(one)
}
