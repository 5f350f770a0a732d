package convert

import (
	"os"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// The values of the ConfigMaps for which TestExpressions evaluates the expressions.
var values = []string{"", "a", "A", "é", "ß", "a,b", "b,a,c", "a:b:c", "1", "1.5", "-3", "1e3", "007", "true", "False", "v1.2.3", "1.2.3", "1.2", "aGVsbG8=", "aGVsbG8", "not base64!", "/w==", `{"k":"v"}`, `{"k":1,"l":[1,2]}`, "[1,2]", "null", "k: v", "2024-01-01T00:00:00Z", "2024-06-01T12:30:45+02:00", "2024-01-02", "1h", "1Gi", "500m", "2", "https://example.com/x", "http://10.0.0.1/", "nginx:latest", "registry.io/a/b@sha256:aaaa", "日本語", "a/../b", "/a//b/", "0", " x ", "İ", "aaa", "xax", "abab", "a\nb", "*", "a*", "$1", "\\d"}

// TestExpressions compares the values of expressions with those of their conversions: the files say which differ, and which are refused.
func TestExpressions(t *testing.T) {
	raw, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	configMap := func(data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "g", "namespace": "default"}, "data": data}
	}
	given := []map[string]any{configMap(map[string]any{}), configMap(map[string]any{"a": "x"}), configMap(map[string]any{"b": "x"})}
	for i, a := range values {
		given = append(given, configMap(map[string]any{"a": a, "b": values[(i*7+3)%len(values)]}))
	}
	known := schema.New()
	for line := range strings.Lines(string(raw)) {
		expression, remark, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  # ")
		if expression == "" || strings.HasPrefix(line, "#") {
			continue
		}
		variable := strings.NewReplacer("A", "request.object.data.a", "B", "request.object.data.b").Replace(expression)
		policy, err := value.DecodeJSON([]byte(`{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": {"rules": [{"name": "r",
			"match": {"any": [{"resources": {"kinds": ["ConfigMap"]}}]},
			"mutate": {"patchStrategicMerge": {"metadata": {"annotations": {"value": ` + value.JSON("it is {{ "+variable+" }}") + `}}}}}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		object := policy.(map[string]any)
		rules, diags := convert.Policy(object, schemas(known))
		if diags.HasErrors() || len(rules) != 1 {
			t.Errorf("%s: %v", expression, diags)
			continue
		}
		if refused := rules[0].Policy == nil; refused || remark == "refused" {
			if refused != (remark == "refused") {
				t.Errorf("%s: refused: %v %v", expression, refused, rules[0].Reasons)
			}
			continue
		}
		var report strings.Builder
		p := prover{known: known, samples: 1, seed: 1, given: given}
		same, err := p.compare(t.Context(), &report, expression, oneRule(object, 0, false), rules[0])
		if err != nil || same != !strings.HasPrefix(remark, "differs: ") {
			t.Errorf("%s: the same: %v %v\n%s", expression, same, err, &report)
		}
	}
}
