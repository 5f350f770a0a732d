package classic_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
)

// The limit for compiling CEL expressions applies to all rules of a policy together, so that the author of one policy cannot occupy
// the processor for a minute.
func TestCELExpressionsOfAPolicy(t *testing.T) {
	policyWith := func(rules, expressions int, expression, kind string) map[string]any {
		var all []any
		for r := range rules {
			var list []any
			for range expressions {
				list = append(list, map[string]any{"expression": expression})
			}
			all = append(all, map[string]any{
				"name":     fmt.Sprint("r", r),
				"match":    map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": []any{kind}}}}},
				"validate": map[string]any{"cel": map[string]any{"expressions": list}},
			})
		}
		return map[string]any{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"rules": all}}
	}
	long := "object.metadata.name != '" + strings.Repeat("x", 10_000) + "'"
	for _, c := range []struct {
		name             string
		rules, each      int
		expression, kind string
		errors           int // one for each rule for which no allowance is left
		want             string
	}{
		{"as many as may be", 10, 100, "true", "ConfigMap", 0, ""},
		{"too many", 3, 400, "true", "ConfigMap", 1, "the policy has more than 1000 CEL expressions"},
		{"too many with the computed rules", 1, 400, "true", "Pod", 1, "in the generated rule autogen-cronjob-r0: the policy has more than 1000 CEL expressions"},
		{"too long", 2, 10, long, "ConfigMap", 1, "the CEL expressions of the policy have more than 131072 bytes in total"},
	} {
		p, diags := compile.One(compile.Object{Value: policyWith(c.rules, c.each, c.expression, c.kind)})
		errs := diags.Errors()
		if len(errs) != c.errors || c.errors > 0 && !strings.HasPrefix(errs[0].Summary, c.want) {
			t.Errorf("%s: %v", c.name, errs)
		}
		if c.errors > 0 && p.Rules[len(p.Rules)-1].Eval == nil {
			t.Errorf("%s: a rule without an evaluator", c.name)
		}
	}
}
