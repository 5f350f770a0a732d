package robustness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// expensive returns a policy with n rules on Pods, each of which takes some 15 ms and stays within the budget of one rule. meta is
// its kind and metadata.
func expensive(kind, meta string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: kyverno.io/v1\nkind: %s\nmetadata: %s\nspec:\n  rules:\n", kind, meta)
	query := "[`1`,`2`]" + strings.Repeat("|[@,@][]", 15) + "|[" + strings.TrimSuffix(strings.Repeat("@[?@>`3`],", 4), ",") + "][]|length(@)"
	for i := range n {
		fmt.Fprintf(&b, "  - name: r%d\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    validate:\n      message: bad\n      deny: {conditions: {all: [{key: \"{{ %s }}\", operator: Equals, value: 9}]}}\n", i, query)
	}
	return b.String()
}

func program(t testing.TB, text string) *policy.Program {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	p, diags := compile.One(compile.Object{Value: object})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return p
}

// TestT8RulesOfAPolicyShareABudget tests a policy with 400 rules, each within the budget of one rule. After some of them, the
// others end in an error of their policy and share one result. A cluster-wide policy beside it is evaluated as if it were alone.
func TestT8RulesOfAPolicyShareABudget(t *testing.T) {
	const rules = 400
	attack := program(t, expensive("Policy", "{name: attack, namespace: d}", rules))
	guard := program(t, `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: guard}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: bad, pattern: {metadata: {name: p}}}}]}}`)
	req := request(policy.Create, value.FromJSON(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"}}`))
	out := evaluate(context.Background(), req, attack, guard)
	evaluated, over, spared := 0, 0, ""
	for _, r := range out.Results {
		switch {
		case r.Program == guard:
			spared = r.Status.String()
		case r.Status == policy.StatusPass:
			evaluated++
		case r.Status == policy.StatusError && strings.Contains(r.Message, "budget exhausted"):
			over++
			if _, more, ok := strings.Cut(r.Message, "(the policy has "); ok { // the unevaluated rules share one result
				n := 0
				if _, err := fmt.Sscanf(more, "%d more rules", &n); err != nil {
					t.Fatal(r.Message)
				}
				over += n
			}
		default:
			t.Fatalf("%s: %s: %s", r.Rule.Name, r.Status, r.Message)
		}
	}
	if evaluated == 0 || evaluated > rules/20 || evaluated+over != rules {
		t.Errorf("%d rules were evaluated and %d ended in an error; want at most %d evaluated, and an error of every other one of %d", evaluated, over, rules/20, rules)
	}
	if spared != "pass" {
		t.Errorf("the cluster's policy beside it: %q, want pass", spared)
	}
}

// TestT16ExceededLimitsAreReported tests that a policy whose rule exceeds its own limits is among those whose status names a budget, in
// either language.
func TestT16ExceededLimitsAreReported(t *testing.T) {
	text := strings.Repeat("a", 20_000)
	req := func() *policy.Request {
		return request(policy.Create, value.FromJSON(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d","annotations":{"a":"`+text+`"}}}`))
	}
	for name, p := range map[string]*policy.Program{
		"JMESPath": program(t, `{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: a, namespace: d}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: bad, deny: {conditions: {all: [{key: "{{ regex_match('a{900}b', request.object.metadata.annotations.a) }}", operator: Equals, value: true}]}}}}]}}`),
		"CEL":      program(t, `{apiVersion: policies.kyverno.io/v1, kind: NamespacedValidatingPolicy, metadata: {name: a, namespace: d}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}, validations: [{expression: "object.metadata.annotations.a.matches('a{900}b')"}]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			out := evaluate(context.Background(), req(), p)
			if len(out.Results) != 1 || out.Results[0].Status != policy.StatusError {
				t.Fatalf("%+v", out.Results)
			}
			if len(out.Exceeded) != 1 || out.Exceeded[0].Program != p || !strings.Contains(out.Exceeded[0].Message, "2000000 steps") {
				t.Errorf("%+v", out.Exceeded)
			}
		})
	}
}
