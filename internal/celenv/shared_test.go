package celenv

import (
	"fmt"
	"runtime"
	"testing"
)

// Equal expressions share one plan if they have the same variables in the same environment. Plans that no expression uses are removed.
func TestSharedPlans(t *testing.T) {
	compiled := func(d Declarations, variable, expression string) *planned {
		c := newRule(t, d)
		if variable != "" {
			c.variable("v", variable)
		}
		x, _ := c.expression(expression)
		return x.planned
	}
	one := compiled(Declarations{Kind: Validating}, "object.a", "variables.v == object.b")
	for name, c := range map[string]struct {
		other *planned
		same  bool
	}{
		"equal":               {compiled(Declarations{Kind: Validating}, "object.a", "variables.v == object.b"), true},
		"another variable":    {compiled(Declarations{Kind: Validating}, "object.c", "variables.v == object.b"), false},
		"another expression":  {compiled(Declarations{Kind: Validating}, "object.a", "variables.v == object.c"), false},
		"another environment": {compiled(Declarations{Kind: Mutating}, "object.a", "variables.v == object.b"), false},
	} {
		if (one == c.other) != c.same {
			t.Errorf("%s: shared is %v", name, !c.same)
		}
	}
	for i := range 20 * minPlans {
		compiled(Declarations{Kind: Validating}, "", fmt.Sprint("object.n == ", i))
		if i%minPlans == 0 {
			runtime.GC()
		}
	}
	if n := len(plans.of); n > 8*minPlans {
		t.Errorf("%d plans are kept", n)
	}
	runtime.KeepAlive(one)
}
