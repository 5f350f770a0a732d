package patch

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// The anchors of patches, one row for each rule.
func TestOverlay(t *testing.T) {
	const two = `"containers":[{"name":"a","image":"x:1"},{"name":"b","image":"y:2"}]`
	for _, c := range []struct{ name, target, patch, want string }{
		{"a condition that holds", `{"a":1}`, `{"(a)":"<2","b":3}`, `{"a":1,"b":3}`},
		{"a condition that does not hold empties the whole patch", `{"a":1,"x":{}}`, `{"b":3,"x":{"(y)":1,"z":2}}`, `{"a":1,"x":{}}`},
		{"a condition on what is absent does not hold", `{}`, `{"(a)":"*","b":3}`, `{}`},
		{"a condition on a map", `{"m":{"a":"x","b":"y"}}`, `{"(m)":{"a":"?"},"n":1}`, `{"m":{"a":"x","b":"y"},"n":1}`},
		{"a global condition", `{"a":1}`, `{"<(a)":2,"b":3}`, `{"a":1}`},
		{"conditions in a list choose elements", pod(two), `{"spec":{"containers":[{"(image)":"x*","tty":true}]}}`,
			pod(`"containers":[{"name":"a","image":"x:1","tty":true},{"name":"b","image":"y:2"}]`)},
		{"(name): * chooses every element", pod(two), `{"spec":{"containers":[{"(name)":"*","tty":true}]}}`,
			pod(`"containers":[{"name":"a","image":"x:1","tty":true},{"name":"b","image":"y:2","tty":true}]`)},
		{"a condition below an element is the element's", pod(`"volumes":[{"name":"a","configMap":{"name":"x"}},{"name":"b"}]`),
			`{"spec":{"volumes":[{"configMap":{"(name)":"x"},"optional":true}]}}`,
			pod(`"volumes":[{"name":"a","configMap":{"name":"x"},"optional":true},{"name":"b"}]`)},
		{"elements without a name are passed over", `{"l":[{"a":1},{"a":1,"name":"n"}]}`, `{"l":[{"(a)":1,"b":2}]}`, `{"l":[{"b":2,"name":"n"}]}`},
		{"braces and references in a condition are plain text", `{"l":[{"name":"n","v":"{{ x }}"},{"name":"m","v":"$(HOST):80"}]}`,
			`{"l":[{"(v)":"{{ x }}","b":1},{"(v)":"$(HOST):80","b":2}]}`, `{"l":[{"b":1,"name":"n"},{"b":2,"name":"m"}]}`},
		{"a name that is a map names no element", `{"l":[{"name":{"a":1}}]}`, `{"l":[{"name":{"a":1},"+(b)":2}]}`, `{"l":[{"name":{"a":1},"b":2}]}`},
		{"conditions in a list within a list choose nothing", `{"l":[{"name":"n"}]}`, `{"l":[[{"(a)":1},{"b":1}]]}`, `{"l":[{"name":"n"}]}`},
		{"no element chosen, nothing changed", pod(two), `{"spec":{"containers":[{"(image)":"z*","tty":true}]}}`, pod(two)},
		{"a list as a condition: some element", `{"l":[{"a":1},{"a":2}]}`, `{"(l)":[{"(a)":2}],"b":1}`, `{"l":[{"a":1},{"a":2}],"b":1}`},
		{"a list as a condition: no element", `{"l":[{"a":1}]}`, `{"(l)":[{"(a)":2}],"b":1}`, `{"l":[{"a":1}]}`},
		{"a global condition in a list of the elements of a list", pod(`"containers":[{"name":"a"},{"name":"b","env":[{"name":"x","from":"s"}]}]`),
			`{"m":1,"spec":{"containers":[{"env":[{"<(from)":"s"}]}]}}`,
			`{"apiVersion":"v1","kind":"Pod","m":1,"spec":{"containers":[{"name":"a"},{"name":"b","env":[{"name":"x","from":"s"}]}]}}`},
		{"no element of the inner lists fits", pod(`"containers":[{"name":"a"},{"name":"b","env":[{"name":"x","from":"t"}]}]`),
			`{"m":1,"spec":{"containers":[{"env":[{"<(from)":"s"}]}]}}`, pod(`"containers":[{"name":"a"},{"name":"b","env":[{"name":"x","from":"t"}]}]`)},
		{"inner lists choose in every element", pod(`"containers":[{"name":"a","env":[{"name":"x"}]},{"name":"b","env":[{"name":"y"}]}]`),
			`{"spec":{"containers":[{"env":[{"(name)":"y","value":"1"}]}]}}`,
			pod(`"containers":[{"name":"b","env":[{"name":"y","value":"1"}]},{"name":"a","env":[{"name":"x"}]}]`)},
		{"inner lists of a named element", pod(`"containers":[{"name":"a","env":[{"name":"y"}]},{"name":"b","env":[{"name":"y"}]}]`),
			`{"spec":{"containers":[{"name":"b","env":[{"(name)":"y","value":"1"}]}]}}`,
			pod(`"containers":[{"name":"b","env":[{"name":"y","value":"1"}]},{"name":"a","env":[{"name":"y"}]}]`)},
		{"an addition", `{"a":1}`, `{"+(a)":2,"+(b)":3}`, `{"a":1,"b":3}`},
		{"an addition of a map leaves what is there alone", `{"m":{}}`, `{"+(m)":{"a":1}}`, `{"m":{}}`},
		{"an addition inside an addition", `{}`, `{"+(m)":{"+(a)":1}}`, `{"m":{"a":1}}`},
		{"an addition in a named element", pod(two), `{"spec":{"containers":[{"name":"b","+(image)":"z","+(tty)":true}]}}`,
			pod(`"containers":[{"name":"b","image":"y:2","tty":true},{"name":"a","image":"x:1"}]`)},
		{"an addition below a condition", pod(`"volumes":[{"name":"a","emptyDir":{}},{"name":"b","emptyDir":{"sizeLimit":1}},{"name":"c"}]`),
			`{"spec":{"volumes":[{"(emptyDir)":{"+(sizeLimit)":2}}]}}`,
			pod(`"volumes":[{"name":"a","emptyDir":{"sizeLimit":2}},{"name":"b","emptyDir":{"sizeLimit":1}},{"name":"c"}]`)},
		{"an addition in the elements of a condition", `{"l":[{"name":"a","k":1},{"name":"b","k":2}]}`, `{"(l)":[{"(k)":2,"+(x)":3}]}`,
			`{"l":[{"name":"b","x":3}]}`},
		{"other anchors are part of the key", `{}`, `{"X(a)":1,"=(b)":2,"^(c)":3,"()":4}`, `{"X(a)":1,"=(b)":2,"^(c)":3,"()":4}`},
		{"empty maps are dropped", `{"a":{}}`, `{"b":{},"c":{"d":{}},"e":[{},{"f":{}}],"g":[{"name":"v","emptyDir":{}}],"a":{"h":1}}`,
			`{"a":{"h":1},"g":[{"name":"v"}]}`},
		{"an empty list is written", `{"a":[1]}`, `{"a":[]}`, `{"a":[]}`},
		{"an empty list does not switch a global condition off", `{"l":[]}`, `{"l":[{"<(a)":1}],"b":2}`, `{"l":[],"b":2}`},
		{"an absent list does", `{}`, `{"l":[{"<(a)":1}],"b":2}`, `{}`},
		{"so does a list without a fitting element", `{"l":[{"a":2}]}`, `{"l":[{"<(a)":1}],"b":2}`, `{"l":[{"a":2}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, patch := decode(t, c.target), decode(t, c.patch)
			o, diags := CompileOverlay(patch, "p")
			if len(diags) > 0 {
				t.Fatal(diags)
			}
			for range 2 { // an overlay can be used again
				got, err := o.Apply(nil, target)
				if err != nil || !value.Equal(got, decode(t, c.want)) {
					t.Errorf("\n got %s, %v\nwant %s", value.JSON(got), err, c.want)
				}
				if value.Equal(decode(t, c.want), target) != (err == nil && same(got, target)) {
					t.Error("an unchanged result has to be the target itself, and no other")
				}
			}
			if !value.Equal(target, decode(t, c.target)) || !value.Equal(patch, decode(t, c.patch)) {
				t.Error("an input was modified")
			}
		})
	}
}

func TestOverlayMistakes(t *testing.T) {
	_, diags := CompileOverlay(decode(t, `{"(a)":{"^(b)":1}}`), "mutate.patchStrategicMerge")
	if len(diags) != 1 || diags[0].Path != "mutate.patchStrategicMerge.(a)" || diags[0].Summary != "existence anchor should have value of type list" {
		t.Errorf("%v", diags)
	}
	deep := decode(t, strings.Repeat(`{"+(a)":`, budget.MaxDepth)+"1"+strings.Repeat("}", budget.MaxDepth))
	for range 4 {
		deep = map[string]any{"b": deep}
	}
	if _, diags := CompileOverlay(deep, "p"); !diags.HasErrors() {
		t.Error("a patch without a bottom was taken")
	}
}

// A patch with many conditions on a large list ends when the budget is exhausted.
func TestOverlayBudget(t *testing.T) {
	elements, items := make([]any, 2000), make([]any, 2000)
	for i := range elements {
		elements[i] = map[string]any{"name": "n"}
		items[i] = map[string]any{"(name)": "x*", "a": int64(1)}
	}
	o, _ := CompileOverlay(map[string]any{"l": items}, "p")
	_, err := o.Apply(budget.New(context.Background(), 10_000, 1<<20), map[string]any{"l": elements})
	if !errors.Is(err, budget.ErrExhausted) {
		t.Error(err)
	}
	list := make([]any, 5000)
	for i := range list {
		list[i] = map[string]any{"name": value.JSON(int64(i))}
	}
	target := map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": list}}
	if _, err := (*Merges)(nil).merge(budget.New(context.Background(), 100_000, 1<<20), target, map[string]any{"spec": map[string]any{"containers": list}}); !errors.Is(err, budget.ErrExhausted) {
		t.Error("comparing every element with every other is not counted:", err)
	}
}

// TestManyPorts tests that lists which are merged by two keys are charged for both: the ports of these containers would take a tenth of a second.
func TestManyPorts(t *testing.T) {
	ports := make([]any, 800)
	for i := range ports {
		ports[i] = map[string]any{"containerPort": int64(i), "protocol": "TCP"}
	}
	v := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "ports": ports}}}, "apiVersion": "v1", "kind": "Pod"}
	o, diags := CompileOverlay(decode(t, `{"spec":{"containers":[{"(name)":"c","ports":[{"containerPort":1,"name":"x"}]}]}}`), "x")
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	if _, err := o.Apply(budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes), v); !errors.Is(err, budget.ErrExhausted) {
		t.Error(err)
	}
}
