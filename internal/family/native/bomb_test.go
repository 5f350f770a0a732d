package native

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// doubling returns forty variables, each twice as large as the previous one.
func doubling(first, next string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "  - {name: v0, expression: \"%s\"}\n", first)
	for i := 1; i <= 40; i++ {
		fmt.Fprintf(&out, "  - {name: v%d, expression: \"%s\"}\n", i, strings.ReplaceAll(next, "V", fmt.Sprint("variables.v", i-1)))
	}
	return out.String()
}

// Policies of the API server whose evaluation would take much time or memory end in an error within the budget of a policy.
func TestBombs(t *testing.T) {
	const head = "apiVersion: admissionregistration.k8s.io/v1\nmetadata: {name: bomb}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}\n"
	validating := func(variables, expression string) string {
		return "kind: ValidatingAdmissionPolicy\n" + head + "  variables:\n" + variables + "  validations: [{expression: \"" + expression + "\"}]\n"
	}
	mutating := func(variables string, mutations ...string) string {
		return "kind: MutatingAdmissionPolicy\n" + head + "  reinvocationPolicy: Never\n  variables:\n" + variables + "  mutations:\n" + strings.Join(mutations, "")
	}
	jsonPatch := func(expression string) string {
		return "  - {patchType: JSONPatch, jsonPatch: {expression: \"" + expression + "\"}}\n"
	}
	configuration := func(expression string) string {
		return "  - {patchType: ApplyConfiguration, applyConfiguration: {expression: \"" + expression + "\"}}\n"
	}
	const none = "  - {name: unused, expression: \"1\"}\n"
	copies := `JSONPatch{op: 'add', path: '/data/x', value: 'xxxxxxxxxxxxxxxx'}`
	for i := range 40 {
		copies += fmt.Sprintf(`, JSONPatch{op: 'copy', from: '/data', path: '/copy'}, JSONPatch{op: 'move', from: '/copy', path: '/data/x%d'}`, i)
	}
	text := doubling("'aaaaaaaaaa'", "V + V")
	for _, b := range []struct{ name, policy, message string }{
		{"doubling lists", validating(doubling("[1, 2]", "V + V"), "variables.v40.size() > 0"), "more than 200000 values"},
		{"nested lists", validating(doubling("dyn([1])", "dyn([V, V])"), "variables.v40 == variables.v40"), "more than 200000 values"},
		{"doubling texts", validating(text, "variables.v40.size() > 0"), "cost"},
		{"nested loops", validating(none, "object.list.all(a, object.list.all(b, object.list.all(c, a + b + c >= 0)))"), "cost"},
		{"match condition", strings.Replace(validating(none, "true"), "  validations:", "  matchConditions: [{name: a, expression: \"object.list.all(a, object.list.all(b, object.list.all(c, a + b + c >= 0)))\"}]\n  validations:", 1), "cost"},
		{"message", strings.Replace(validating(none, "false"), "\"false\"", "\"false\", messageExpression: \"object.list.map(a, object.list.map(b, object.list.map(c, '' ).join('')).join('')).join('')\"", 1), ""},
		{"nested Objects", mutating(none, configuration("Object{data: Object.data{a: object.list.map(a, object.list.map(b, object.list))}}")), "more than"},
		{"nested patches", mutating(doubling("dyn([1])", "dyn([V, V])"), jsonPatch("[JSONPatch{op: 'add', path: '/x', value: variables.v40}]")), "more than 200000 values"},
		{"a large value many times", mutating(text, jsonPatch("[JSONPatch{op: 'add', path: '/x', value: object.list.map(a, variables.v12)}]")), "more than"},
		{"copies of copies", mutating(none, jsonPatch("["+copies+"]")), "evaluation budget exhausted"},
		{"many operations", mutating(none, jsonPatch("object.list.map(a, JSONPatch{op: 'add', path: '/list/0', value: a})")), budget.ErrExhausted.Error()},
		{"too many operations", mutating(none, jsonPatch("(object.list + object.list + object.list).map(a, JSONPatch{op: 'add', path: '/list/0', value: a})")), "evaluation budget exhausted"},
		{"growing object", mutating(none, strings.Repeat(jsonPatch("[JSONPatch{op: 'add', path: '/x', value: {'x': object.?x.orValue(1), 'y': object.?x.orValue(1), 'z': object.list}}]"), 40)), ""},
	} {
		t.Run(b.name, func(t *testing.T) {
			p := Compile(Source{Policy: decoded(t, b.policy)}, Options{})
			if p.Diags.HasErrors() {
				t.Fatal(p.Diags)
			}
			list := make([]any, 5000)
			for i := range list {
				list[i] = int64(i)
			}
			req := &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{}, "list": list,
			})}}
			meter, account := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes), budget.Account{}
			all := budget.NewRequest()
			all.Open(&account, p, false)
			meter.Charge(&account)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			y := p.Rules[0].Eval(&policy.Call{Env: &evalenv.Env{Meter: meter}, Request: req, Program: p, Rule: p.Rules[0]})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 256 || took > time.Minute {
				t.Errorf("it took %v and %d MB", took, allocated)
			}
			if testing.Verbose() {
				t.Logf("%v, %d MB: %v %.200s", took, (after.TotalAlloc-before.TotalAlloc)>>20, y.Status, y.Message)
			}
			switch {
			case b.message == "" && y.Status == policy.StatusPass:
				t.Errorf("%v: %s", y.Status, y.Message)
			case b.message != "" && (y.Status != policy.StatusError || !strings.Contains(y.Message, b.message)):
				t.Errorf("%v: %s, want an error with %q", y.Status, y.Message, b.message)
			}
			if err := meter.Settle(); err != nil && y.Status != policy.StatusError {
				t.Errorf("the budget is used up (%v) but the result is %v", err, y.Status)
			}
		})
	}
}

// The cost of a policy's expressions is charged to its account, so that several bindings and parameters share a budget.
func TestCostIsCharged(t *testing.T) {
	p := Compile(Source{Policy: decoded(t, replicas+"  validations: [{expression: variables.count <= 5}]\n")}, Options{})
	req := &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(map[string]any{"spec": map[string]any{"replicas": int64(4)}})}}
	meter, account := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes), budget.Account{}
	all := budget.NewRequest()
	all.Open(&account, p, false)
	meter.Charge(&account)
	before := meter.Left(1 << 40)
	if y := p.Rules[0].Eval(&policy.Call{Env: &evalenv.Env{Meter: meter}, Request: req, Program: p, Rule: p.Rules[0]}); y.Status != policy.StatusPass {
		t.Fatal(y)
	}
	if used := before - meter.Left(1<<40); used <= 0 {
		t.Error("nothing was charged")
	}
}
