package vapgen

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/policy"
)

var update = flag.Bool("update", false, "rewrite what is wanted in testdata")

// served are the resources of the tests.
type served []discovery.Resource

var known = served{
	{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "pods", Subresource: "exec", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "namespaces", Kind: "Namespace"},
	{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true},
	{Group: "apps", Version: "v1", Resource: "statefulsets", Kind: "StatefulSet", Namespaced: true},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true},
	{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true},
}

func (s served) Find(t policy.Target) ([]discovery.Resource, error) {
	if t.Kind == "Unknown" {
		return nil, errors.New("discovery failed")
	}
	return discovery.List(s).Find(t)
}

// What policies become, with their exceptions, and why some become nothing.
func TestData(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			in := Input{Resources: known}
			at := -1
			for i, f := range a.Files {
				var object map[string]any
				switch {
				case f.Name == "want":
					at = i
					continue
				}
				if err := yaml.Unmarshal(f.Data, &object); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(f.Name, "exception") {
					in.Object = object
					continue
				}
				e, diags := compile.OneException(compile.Object{Value: object})
				if e == nil || diags.HasErrors() {
					t.Fatal(f.Name, diags)
				}
				in.Exceptions = append(in.Exceptions, e)
			}
			got := text(t, in)
			if *update {
				a.Files[at].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(a.Files[at].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func text(t *testing.T, in Input) string {
	t.Helper()
	u := unstructured.Unstructured{Object: in.Object}
	out, err := Of(u.GetAPIVersion(), u.GetKind()).Translate(in)
	switch {
	case err != nil:
		return "error: " + err.Error() + "\n"
	case out.Reason != "":
		return out.Reason + "\n"
	}
	var b strings.Builder
	for _, o := range []any{out.Policy, out.Binding} {
		y, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + strings.ReplaceAll(string(y), "  creationTimestamp: null\n", ""))
	}
	return b.String()
}
