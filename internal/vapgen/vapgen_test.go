package vapgen

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// served are the resources of the tests.
type served []discovery.Resource

var known = served{
	{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "pods", Subresource: "exec", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "namespaces", Kind: "Namespace"},
	{Version: "v1", Resource: "nodes", Kind: "Node"},
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

// The translations of policies, with their exceptions, and the reasons why some are not translated.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, sections golden.Inputs) string {
		in := Input{Resources: known}
		for _, f := range sections {
			object := golden.Decode[map[string]any](t, f.Data)
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
		return text(t, in)
	})
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
