package celpolicy_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/value"
)

// FuzzRewrite rewrites random texts for Pod controllers: the namespace of the object stays unchanged, no text is lost, and each reference
// to a part of the Pod moves below the template.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{"object.spec.a", "oldObject.metadata.namespace", "object.metadata.namespaces", "xobject.spec", "object.spec.object.spec", "request.object.spec", "object.?spec", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, template := range []string{"spec.template", "spec.jobTemplate.spec.template"} {
			out := celpolicy.Rewrite(map[string]any{"k": []any{text, int64(1)}}, template).(map[string]any)["k"].([]any)
			got := out[0].(string)
			if out[1] != int64(1) {
				t.Errorf("%v", out)
			}
			if back := strings.ReplaceAll(strings.ReplaceAll(got, "."+template+".spec", ".spec"), "."+template+".metadata", ".metadata"); !strings.Contains(text, template) && back != text {
				t.Errorf("%q became %q", text, got)
			}
			if strings.Count(got, "object.metadata.namespace") < strings.Count(text, "object.metadata.namespace") {
				t.Errorf("the namespace of %q is rewritten: %q", text, got)
			}
			if len(got) > len(text)*8 {
				t.Errorf("%d bytes became %d", len(text), len(got))
			}
		}
	})
}

// FuzzTemplates searches for Pod templates in random objects: each one found is a Pod with containers, and paths are sorted.
func FuzzTemplates(f *testing.F) {
	for _, s := range []string{
		`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"b"}]}}}}`,
		`{"metadata":{"name":"n"},"spec":{"parts":[{"spec":{"containers":[{"name":"a","image":"b"}]}},{"metadata":7,"spec":{"containers":[{"name":"a","image":"b"}]}}]}}`,
		`{"spec":{"containers":[]}}`, `{"spec":[[[{"spec":{"containers":[1]}}]]]}`, `{"spec":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := value.DecodeJSON([]byte(text))
		object, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		before := value.JSON(object)
		m := &budget.Meter{}
		m.Reset(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
		found, err := celpolicy.Templates(m, object)
		if err != nil {
			return
		}
		for _, x := range found {
			spec, _ := x.Pod["spec"].(map[string]any)
			if containers, _ := spec["containers"].([]any); len(containers) == 0 || x.Pod["kind"] != "Pod" || !strings.HasPrefix(x.Path, "spec") {
				t.Errorf("%s: %s is no Pod: %v", text, x.Path, x.Pod)
			}
		}
		if len(slices.CompactFunc(found, func(a, b celpolicy.Template) bool { return a.Path == b.Path })) != len(found) {
			t.Errorf("%s: a path is there twice", text)
		}
		if value.JSON(object) != before {
			t.Errorf("%s was changed", text)
		}
	})
}
