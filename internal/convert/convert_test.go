package convert_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	kindschema "ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/source"
)

var update = flag.Bool("update", false, "write what is found into the files")

// groups are the API groups of the kinds in the files.
var groups = map[string]string{
	"Deployment": "apps", "DaemonSet": "apps", "StatefulSet": "apps", "ReplicaSet": "apps", "Job": "batch", "CronJob": "batch", "Pod": "",
	"ConfigMap": "", "Widget": "example.com", "Gadget": "example.com", "Service": "", "Namespace": "", "Ingress": "networking.k8s.io", "Role": "rbac.authorization.k8s.io", "ReplicationController": "",
}

func resources(t policy.Target) []schema.GroupVersionResource {
	group, known := groups[t.Kind]
	if !known {
		return nil
	}
	return []schema.GroupVersionResource{{Group: group, Version: "v1", Resource: kinds.Plural(t.Kind)}}
}

// types knows the fields of the kinds of Kubernetes.
func types(kind schema.GroupVersionKind, names []string) string {
	return kindschema.New().TypeOf(kind, names)
}

// TestPolicy converts the rules in testdata. Each file has sections with a rule and its conversion. Every converted policy must compile.
func TestPolicy(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(archive.Files); i += 2 {
			in, want := &archive.Files[i], &archive.Files[i+1]
			t.Run(filepath.Base(file)+"/"+in.Name, func(t *testing.T) {
				got := converted(t, in.Data)
				if *update {
					want.Data = []byte(got)
					return
				}
				if got != string(want.Data) {
					t.Errorf("got:\n%s\nwant:\n%s", got, want.Data)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compiles fails the test if a policy is invalid.
func compiles(t *testing.T, rule string, object map[string]any) {
	t.Helper()
	if _, diags := compile.One(compile.Object{Value: object}); diags.HasErrors() {
		t.Errorf("rule %s: %v", rule, diags.Errors())
	}
}

// converted returns the conversions of the rules in text: the spec of each policy, and the remarks.
func converted(t *testing.T, text []byte) string {
	t.Helper()
	var in any
	if err := yaml.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	object, whole := in.(map[string]any)
	if !whole {
		object = map[string]any{
			"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"rules": in},
		}
	}
	spec, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	objects, diags := source.Load([]string{path}, source.Options{Numbers: source.Exact})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	made, diags := convert.Policy(objects[0].Value, convert.Schemas{Resources: resources, Types: types})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var out strings.Builder
	for _, r := range made {
		if r.Policy != nil {
			raw, err := yaml.Marshal(r.Policy["spec"])
			if err != nil {
				t.Fatal(err)
			}
			out.Write(raw)
			compiles(t, r.Name, r.Policy)
		}
		for _, more := range r.More {
			raw, err := yaml.Marshal(more)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "---\n%s", raw)
			compiles(t, r.Name, more)
		}
		for _, x := range r.Reasons {
			fmt.Fprintf(&out, "no way: %s: %s\n", x.Path, x.Text)
		}
		for _, x := range r.Notes {
			if !strings.Contains(x.Path, "allowExistingViolations") && !strings.Contains(x.Text, "ReplicationControllers") {
				fmt.Fprintf(&out, "note: %s: %s\n", x.Path, x.Text)
			}
		}
	}
	return out.String()
}
