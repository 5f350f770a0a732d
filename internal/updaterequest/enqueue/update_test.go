package enqueue

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// An UpdateRequest that does not hold the content of both objects says whether the update changes anything, with nothing of the content. Other
// UpdateRequests do not need it, and a later request replaces it.
func TestUpdatesSayWhetherThereAreChanges(t *testing.T) {
	object := func(kind, version, data string) *value.Doc {
		return value.Of(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{
			"name": "shop", "uid": "u1", "resourceVersion": version, "managedFields": []any{data},
		}, "data": map[string]any{"k": strings.TrimPrefix(data, "managed ")}})
	}
	large := strings.Repeat("x", maxContent)
	for name, c := range map[string]struct {
		kind, old, object string
		operation         policy.Operation
		want              string
	}{
		"a Secret":                    {"Secret", "a", "b", policy.Update, "changed from 7"},
		"a Secret without changes":    {"Secret", "a", "a", policy.Update, "unchanged"},
		"only its managed fields":     {"Secret", "a", "managed a", policy.Update, "unchanged"},
		"a new Secret":                {"Secret", "a", "b", policy.Create, ""},
		"a large one":                 {"ConfigMap", large, large + "x", policy.Update, "changed from 7"},
		"a large one without changes": {"ConfigMap", large, large, policy.Update, "unchanged"},
		"a small one":                 {"ConfigMap", "a", "b", policy.Update, ""},
	} {
		s := &store{}
		w, _, _ := writer(s, 1000)
		r := request(c.operation, "u1")
		r.GVK.Kind, r.RequestGVK.Kind = c.kind, c.kind
		r.OldObject, r.Object = object(c.kind, "7", c.old), object(c.kind, "7", c.object)
		w.Write(t.Context(), r, generate(0))
		if got := s.only(t).Annotations[updaterequest.AnnotationUpdate]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		changed, replaces, known := updaterequest.Update(s.only(t))
		if known != (c.want != "") || changed != (replaces == "7") || changed && !known {
			t.Errorf("%s: %v, %q, %v", name, changed, replaces, known)
		}
		r.Object, r.OldObject = object(c.kind, "8", "a"), object(c.kind, "8", "b")
		w.Write(t.Context(), r, generate(0))
		if got := s.only(t).Annotations[updaterequest.AnnotationUpdate]; c.operation == policy.Update && got == c.want {
			if c.want != "" {
				t.Errorf("%s: it still says %q after another request", name, got)
			}
		}
	}
}
