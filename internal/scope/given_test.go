package scope

import (
	"errors"
	"reflect"
	"testing"

	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func given(g *policy.Given) *Scope {
	req := &policy.Request{Review: policy.Review{
		Operation: policy.Create, Object: value.Of(map[string]any{"a": "object"}),
		Given: func(*policy.Program, *policy.Rule) *policy.Given { return g },
	}}
	return New(&policy.Call{Env: &evalenv.Env{}, Request: req, Program: &policy.Program{}, Rule: &policy.Rule{}})
}

func field(t *testing.T, s *Scope, name string) any {
	t.Helper()
	v, ok, err := s.Field(name)
	if !ok || err != nil {
		t.Fatalf("%s: known %v, %v", name, ok, err)
	}
	return v
}

// A given value replaces a context entry, which is not loaded, and extends the built-in variables.
func TestGiven(t *testing.T) {
	s := given(&policy.Given{Names: map[string]any{"cm": "given", "request": map[string]any{"mode": "dev", "object": map[string]any{"b": 1.0}}}})
	s = s.WithLazy("cm", func(*Scope) (any, error) { return nil, errors.New("must not be loaded") })
	s = s.WithLazy("other", func(before *Scope) (any, error) { v, _, err := before.Field("cm"); return v, err })
	if got := field(t, s, "cm"); got != "given" {
		t.Errorf("cm is %v", got)
	}
	if got := field(t, s, "other"); got != "given" {
		t.Errorf("an entry that reads the given value is %v", got)
	}
	doc := field(t, s, "request").(map[string]any)
	if doc["mode"] != "dev" || doc["operation"] != "CREATE" || !reflect.DeepEqual(doc["object"], map[string]any{"a": "object", "b": 1.0}) {
		t.Errorf("request is %v", doc)
	}
	if original, _ := s.Request.Object.Map(); len(original) != 1 {
		t.Errorf("the object itself was changed: %v", original)
	}
	all, err := s.Value()
	if err != nil || all.(map[string]any)["cm"] != "given" || all.(map[string]any)["request"].(map[string]any)["mode"] != "dev" {
		t.Errorf("the whole context: %v, %v", all, err)
	}
}

func TestGivenElements(t *testing.T) {
	s := given(&policy.Given{
		Names: map[string]any{"data": map[string]any{"x": "all", "y": "all"}},
		Elements: func(i int) map[string]any {
			if i > 1 {
				return nil
			}
			return map[string]any{"data": map[string]any{"x": float64(i)}, "element": map[string]any{"name": "given"}}
		},
	})
	for i, want := range []any{0.0, 1.0, "all"} {
		in := s.With("element", map[string]any{"name": "own", "image": "i"}).Element(i)
		in = in.WithLazy("data", func(*Scope) (any, error) { return nil, errors.New("must not be loaded") })
		data, element := field(t, in, "data").(map[string]any), field(t, in, "element").(map[string]any)
		if data["x"] != want || data["y"] != "all" || element["image"] != "i" || (element["name"] == "given") != (i < 2) {
			t.Errorf("element %d: data %v, element %v", i, data, element)
		}
	}
	plain := New(&policy.Call{Env: &evalenv.Env{}, Request: &policy.Request{}})
	if plain.Element(3) != plain {
		t.Error("a scope without given values is not itself")
	}
}
