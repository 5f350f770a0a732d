package lint

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"

	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(b)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// Every check finds its own example, and no other mistake in it.
func TestExamples(t *testing.T) {
	for _, c := range checks {
		findings := Exception(compile.Object{Value: object(t, c.Example)})
		if c.exception == nil {
			findings = Policy(compile.Object{Value: object(t, c.Example)}, Options{})
		}
		if len(findings) != 1 || findings[0].Check != c {
			t.Errorf("the example of %s (its variable is in check_*.go) is to have exactly the finding of this check: correct the example if another check is right about it", c.Name)
			for _, f := range findings {
				t.Errorf("  %s: %s", f.Check.Name, f.Diagnostic)
			}
		}
	}
	if len(Checks()) != len(checks)+2 {
		t.Error("Checks does not list all")
	}
}

// testdata/*.txtar contain a policy, definitions of custom resources if any, and the expected findings.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var crds []map[string]any
		if in.Has("crd.yaml") {
			crds = append(crds, object(t, string(in.Text("crd.yaml"))))
		}
		var got strings.Builder
		for _, f := range Policy(compile.Object{Value: object(t, string(in.Text("policy.yaml")))}, Options{Kinds: schema.New(crds...)}) {
			fmt.Fprintf(&got, "%s: %s\n", f.Check.Name, f.Diagnostic)
		}
		return got.String()
	})
}

func TestPositions(t *testing.T) {
	o := compile.Object{Value: object(t, unusedContext.Example), Pos: func(path string) diag.Position {
		return diag.Position{File: path}
	}}
	findings := Policy(o, Options{})
	if len(findings) != 1 || findings[0].Pos.File != "spec.rules[0].context[0]" {
		t.Errorf("%+v", findings)
	}
}
