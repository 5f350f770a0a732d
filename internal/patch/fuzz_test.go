package patch

import (
	"context"
	"errors"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

func meter() *budget.Meter { return budget.New(context.Background(), 200_000, 1<<20) }

// For any patch, applying it ends with a value or an error and leaves the inputs unchanged; the difference leads to the patched value.
func FuzzMerge(f *testing.F) {
	f.Add(pod(`"containers":[{"name":"a"},{"name":"a"},{}]`), `{"spec":{"containers":[{"(name)":"*","+(x)":{}},{"$patch":"replace"}]}}`)
	f.Add(`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":1},{"port":1,"protocol":"TCP"}]}}`, `{"spec":{"ports":[{"protocol":"UDP"},null]}}`)
	f.Add(`{"l":[]}`, `{"l":[{"<(a)":[{"^(b)":1}]}],"(m)":{"+(n)":null}}`)
	f.Fuzz(func(t *testing.T, target, patch string) {
		v, errV := value.DecodeJSON([]byte(target))
		p, errP := value.DecodeJSON([]byte(patch))
		if errV != nil || errP != nil {
			return
		}
		before, patchBefore := value.JSON(v), value.JSON(p)
		o, _ := CompileOverlay(p, "p")
		got, err := o.Apply(meter(), v)
		if value.JSON(v) != before || value.JSON(p) != patchBefore {
			t.Fatalf("an input was modified: %s and %s", before, patchBefore)
		}
		if err == nil {
			checkDiff(t, v, got)
		}
	})
}

// Overlays that are applied in a row give the same result with and without shared Merges.
func FuzzMerges(f *testing.F) {
	f.Add(pod(`"containers":[{"name":"a","ports":[{"containerPort":1}]},{"name":"b","env":[{"name":"x"},{"name":"y"}]},{"name":"c"}]`),
		`[{"spec":{"containers":[{"(name)":"c","x":1}]}},{"spec":{"containers":[{"name":"b","env":[{"name":"y","value":"1"},{"name":"z"}]}]}},
		{"spec":{"containers":[{"(name)":"a","ports":[{"containerPort":1,"protocol":"UDP"}]},{"name":"d","+(x)":1}]}}]`)
	f.Add(pod(`"containers":[{"name":"a"},{"name":"b","$patch":"x"}],"initContainers":[{"name":"b"},{"name":"b"}]`),
		`[{"metadata":{"labels":{"a":"b"}}},{"spec":{"containers":[{"name":"b","$patch":"delete"}]}},{"spec":{"containers":[{"name":"a","x":null}],"initContainers":[{"name":"b"}]}}]`)
	f.Add(pod(`"containers":[{"name":1},{"name":"2"}],"tolerations":[{},{"key":"a"}]`),
		`[{"spec":{"containers":[{"name":2,"a":1}]}},{"spec":{"containers":[{"(name)":"a1","b":1},{"name":"1","b":{"c":[]}}]}},{"spec":{"containers":[{"name":"1","b":null}]}}]`)
	f.Fuzz(func(t *testing.T, target, overlays string) {
		v, errV := value.DecodeJSON([]byte(target))
		p, errP := value.DecodeJSON([]byte(overlays))
		list, ok := p.([]any)
		if errV != nil || errP != nil || !ok || len(list) > 8 {
			return
		}
		before, overlaysBefore := value.JSON(v), value.JSON(p)
		var in Merges
		once, together := v, v
		for _, overlay := range list {
			o, _ := CompileOverlay(overlay, "p")
			m := meter()
			want, err := o.Apply(m, once)
			got, errGot := in.Apply(meter(), o, together)
			if errors.Is(err, budget.ErrExhausted) || errors.Is(errGot, budget.ErrExhausted) {
				return
			}
			if (err == nil) != (errGot == nil) || err == nil && value.JSON(got) != value.JSON(want) {
				t.Fatalf("together %s, %v; one by one %s, %v", value.JSON(got), errGot, value.JSON(want), err)
			}
			if err != nil {
				break
			}
			once, together = want, got
		}
		if value.JSON(v) != before || value.JSON(p) != overlaysBefore {
			t.Fatalf("an input was modified: %s and %s", before, overlaysBefore)
		}
	})
}

func FuzzJSONPatch(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, `[{"op":"add","path":"/a/1/c/-","value":{}},{"op":"move","from":"/a/0","path":"/x~1y"},{"op":"test","path":"/a/-1","value":null}]`)
	f.Add(`{"a":[0,{}]}`, `[{"op":"add","path":"/b/1/c/-","value":{}},{"op":"move","from":"/","path":"/a/1"}]`)
	f.Add(`{}`, "- op: add\n  path: /a/3/b\n  value: yes")
	f.Fuzz(func(t *testing.T, doc, patch string) {
		v, err := value.DecodeJSON([]byte(doc))
		if err != nil {
			return
		}
		ops, err := ParseJSONPatch(patch)
		if err != nil {
			return
		}
		before := value.JSON(v)
		got, err := ApplyJSON(meter(), v, ops)
		if value.JSON(v) != before {
			t.Fatalf("the document was modified: %s", before)
		}
		if err == nil {
			checkDiff(t, v, got)
		}
	})
}

func checkDiff(t *testing.T, a, b any) {
	t.Helper()
	if kindOf(a) != mapKind || kindOf(b) != mapKind {
		return // objects only: a scalar does not replace a whole document
	}
	for _, v := range []any{a, b} {
		if _, empty := v.(map[string]any)[""]; empty {
			return // in Kyverno, and so in ApplyJSON, "/" refers to the document itself
		}
	}
	got, err := ApplyJSON(meter(), a, Diff(a, b))
	if errors.Is(err, budget.ErrExhausted) {
		return
	}
	if err != nil || !value.Equal(got, b) {
		t.Errorf("the difference of %s and %s gives %s, %v", value.JSON(a), value.JSON(b), value.JSON(got), err)
	}
}
