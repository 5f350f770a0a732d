package lint

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/schema"
	"github.com/ephor-dev/ephor/internal/value"

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

// Every check finds its own example, and only that.
func TestExamples(t *testing.T) {
	for _, c := range checks {
		findings := Policy(compile.Object{Value: object(t, c.Example)}, Options{})
		if len(findings) != 1 || findings[0].Check != c {
			t.Errorf("%s: %+v", c.Name, findings)
		}
	}
	if len(Checks()) != len(checks)+2 {
		t.Error("Checks does not list all")
	}
}

// testdata/*.txtar: a policy, definitions of custom resources if any, and what is found.
func TestData(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range a.Files {
				parts[f.Name] = string(f.Data)
			}
			var crds []map[string]any
			if text, ok := parts["crd.yaml"]; ok {
				crds = append(crds, object(t, text))
			}
			var got strings.Builder
			for _, f := range Policy(compile.Object{Value: object(t, parts["policy.yaml"])}, Options{Kinds: schema.New(crds...)}) {
				fmt.Fprintf(&got, "%s: %s\n", f.Check.Name, f.Diagnostic)
			}
			if got.String() != parts["want"] {
				t.Errorf("found\n%swant\n%s", got.String(), parts["want"])
			}
		})
	}
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
