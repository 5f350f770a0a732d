package patch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

type dice struct{ *rand.Rand }

func (d dice) of(list ...string) string { return list[d.IntN(len(list))] }

// scalar returns a name or a value; names repeat, and some look like numbers.
func (d dice) scalar() any {
	switch d.IntN(8) {
	case 0:
		return int64(d.IntN(3))
	case 1:
		return nil
	default:
		return d.of("a", "b", "c", "d", "e", "1", "a*", "x")
	}
}

// element returns an element of a list of containers, or of a list in one.
func (d dice) element(deep, overlay bool) map[string]any {
	out := map[string]any{}
	if d.IntN(12) > 0 {
		key := "name"
		if overlay && d.IntN(3) == 0 {
			key = d.of("(name)", "<(name)", "+(name)")
		}
		out[key] = d.scalar()
	}
	for range d.IntN(3) {
		key := d.of("image", "value", "tty")
		if overlay && d.IntN(4) == 0 {
			key = d.of("+", "", "<") + "(" + key + ")"
		}
		out[key] = d.scalar()
	}
	if overlay && d.IntN(20) == 0 {
		out["$patch"] = d.of("delete", "replace", "merge")
	}
	if deep {
		for range d.IntN(3) {
			list := d.list(false, overlay)
			switch d.IntN(3) {
			case 0:
				out["env"] = list
			case 1:
				out["ports"] = []any{map[string]any{"containerPort": int64(d.IntN(3)), "protocol": d.of("TCP", "UDP")}, map[string]any{"containerPort": int64(d.IntN(3))}}
			default:
				out["securityContext"] = map[string]any{"capabilities": map[string]any{"add": []any{d.scalar(), d.scalar()}}}
			}
		}
	}
	return out
}

func (d dice) list(deep, overlay bool) []any {
	n := d.IntN(6)
	if !overlay && d.IntN(30) == 0 {
		n = 80 // more than the number of elements that are compared with each other
	}
	out := make([]any, 0, n)
	for i := range n {
		e := d.element(deep, overlay)
		if !overlay && d.IntN(4) > 0 { // mostly well-formed
			e["name"] = fmt.Sprint(string(rune('a'+i%26)), i/26)
			if i < 5 {
				e["name"] = string(rune('a' + i))
			}
		}
		out = append(out, e)
	}
	return out
}

func (d dice) object(overlay bool) map[string]any {
	spec := map[string]any{}
	for _, key := range []string{"containers", "initContainers", "volumes"} {
		if d.IntN(3) > 0 {
			spec[key] = d.list(key != "volumes", overlay)
		}
	}
	if d.IntN(3) == 0 {
		spec["tolerations"] = d.list(false, overlay)
	}
	metadata := map[string]any{"labels": map[string]any{d.of("a", "b"): d.scalar()}}
	if d.IntN(3) == 0 {
		metadata["finalizers"] = []any{d.scalar(), "f"}
	}
	out := map[string]any{"spec": spec}
	if !overlay {
		out["apiVersion"], out["kind"] = "v1", "Pod"
		out["metadata"] = metadata
	} else if d.IntN(3) == 0 {
		out["metadata"] = metadata
	}
	return out
}

// Merges in a row that share a Merges give the same results as separate ones, and leave their inputs unchanged.
func TestMergesLikeOneByOne(t *testing.T) {
	changed := 0
	for seed := range uint64(4_000) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		v := d.object(false)
		before := value.JSON(v)
		var in Merges
		var once, together any = v, v
		var given []string
		for range 1 + d.IntN(6) {
			p := d.object(true)
			given = append(given, value.JSON(p))
			o, _ := CompileOverlay(p, "p")
			want, err := o.Apply(nil, once)
			got, errGot := in.Apply(nil, o, together)
			if fmt.Sprint(err) != fmt.Sprint(errGot) || err == nil && value.JSON(got) != value.JSON(want) {
				t.Fatalf("seed %d: together\n%s, %v\none by one\n%s, %v\nof\n%s\nby\n%s", seed, value.JSON(got), errGot, value.JSON(want), err, before, given)
			}
			if err != nil {
				break
			}
			if value.JSON(p) != given[len(given)-1] {
				t.Fatalf("seed %d: the overlay was modified", seed)
			}
			if !value.Equal(once, want) {
				changed++
			}
			once, together = want, got
		}
		if value.JSON(v) != before {
			t.Fatalf("seed %d: the object was modified", seed)
		}
	}
	if changed < 2_000 {
		t.Errorf("only %d merges changed something", changed)
	}
}

// A thousand merges into a list of a thousand elements cost about a thousand times one merge into a list of one, even if
// a condition selects the element.
func TestMergesIntoLongLists(t *testing.T) {
	const n = 1000
	for _, form := range []string{"name", "(name)"} {
		for _, ascending := range []bool{true, false} {
			list := make([]any, n)
			for i := range list {
				list[i] = map[string]any{"name": fmt.Sprint("c", i), "env": []any{map[string]any{"name": "x"}}}
			}
			var v any = map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": list}}
			m := budget.New(t.Context(), 200*n, 1<<20)
			var in Merges
			for i := range n {
				if !ascending {
					i = n - 1 - i
				}
				o, _ := CompileOverlay(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{form: fmt.Sprint("c", i), "tty": true}}}}, "p")
				var err error
				if v, err = in.Apply(m, o, v); err != nil {
					t.Fatalf("%s, %d: %v", form, i, err)
				}
			}
			for _, e := range v.(map[string]any)["spec"].(map[string]any)["containers"].([]any) {
				if e.(map[string]any)["tty"] != true {
					t.Fatalf("%s: %v was not patched", form, e)
				}
			}
			steps, _ := m.Used()
			t.Logf("%s, ascending %v: %d steps", form, ascending, steps)
		}
	}
}
