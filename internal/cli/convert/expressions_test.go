package convert

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// values are the values in the ConfigMaps for which expressions and conditions are evaluated.
var values = []string{"", "a", "A", "é", "ß", "a,b", "b,a,c", "a:b:c", "1", "1.5", "-3", "1e3", "007", "true", "False", "v1.2.3", "1.2.3", "1.2", "aGVsbG8=", "aGVsbG8", "not base64!", "/w==", `{"k":"v"}`, `{"k":1,"l":[1,2]}`, "[1,2]", "null", "k: v", "2024-01-01T00:00:00Z", "2024-06-01T12:30:45+02:00", "2024-01-02", "1h", "1Gi", "500m", "2", "https://example.com/x", "http://10.0.0.1/", "nginx:latest", "registry.io/a/b@sha256:aaaa", "日本語", "a/../b", "/a//b/", "0", " x ", "İ", "aaa", "xax", "abab", "a\nb", "*", "a*", "$1", "\\d"}

// configMaps returns ConfigMaps with all pairs of values, and with one or none.
func configMaps() []map[string]any {
	one := func(data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "g", "namespace": "default"}, "data": data}
	}
	out := []map[string]any{one(map[string]any{}), one(map[string]any{"a": "x"}), one(map[string]any{"b": "x"})}
	for i, a := range values {
		out = append(out, one(map[string]any{"a": a, "b": values[(i*7+3)%len(values)]}))
	}
	return out
}

// compareRule converts a classic rule about ConfigMaps with a part in JSON, and reports whether the conversion is refused, and whether it has the
// same results for the ConfigMaps.
func compareRule(t *testing.T, known *schema.Kinds, part string) (refused, same bool, report string) {
	t.Helper()
	decoded, err := value.DecodeJSON([]byte(`{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": {"rules": [
		{"name": "r", "match": {"any": [{"resources": {"kinds": ["ConfigMap"]}}]}, ` + part + `}]}}`))
	if err != nil {
		t.Fatal(part, err)
	}
	policy := decoded.(map[string]any)
	rules, diags := convert.Policy(policy, schemas(known))
	if diags.HasErrors() || len(rules) != 1 {
		t.Fatal(part, diags)
	}
	if rules[0].Policy == nil {
		return true, false, fmt.Sprint(rules[0].Reasons)
	}
	var out strings.Builder
	same, err = prover{known: known, samples: 1, seed: 1, given: configMaps()}.compare(t.Context(), &out, "rule", oneRule(policy, 0, false), rules[0])
	if err != nil {
		t.Fatal(part, err)
	}
	return false, same, out.String()
}

// TestExpressions compares the values of expressions with those of their conversions: the file says which differ, and which are refused.
func TestExpressions(t *testing.T) {
	raw, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := schema.New()
	for line := range strings.Lines(string(raw)) {
		expression, remark, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  # ")
		if expression == "" || strings.HasPrefix(line, "#") {
			continue
		}
		variable := strings.NewReplacer("A", "request.object.data.a", "B", "request.object.data.b").Replace(expression)
		refused, same, report := compareRule(t, known, `"mutate": {"patchStrategicMerge": {"metadata": {"annotations": {"value": `+value.JSON("it is {{ "+variable+" }}")+`}}}}`)
		if refused != (remark == "refused") || same != (remark == "") {
			t.Errorf("%s: refused: %v, the same: %v\n%s", expression, refused, same, report)
		}
	}
}

// TestConditions compares conditions, one in a line of the file, with their conversions.
func TestConditions(t *testing.T) {
	raw, err := os.ReadFile("testdata/conditions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	known := schema.New()
	for condition := range strings.Lines(string(raw)) {
		refused, same, report := compareRule(t, known, `"validate": {"message": "m", "deny": {"conditions": {"any": [`+condition+`]}}}`)
		if refused || !same && !strings.Contains(report, ", 0 different") { // some conditions never hold
			t.Errorf("%s\n%s", condition, report)
		}
	}
}
