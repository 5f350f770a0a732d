package celrule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// TestMembers tests that a patch has the same result on the members that it names as on the whole object, which costs more.
func TestMembers(t *testing.T) {
	object := map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": "p", "labels": map[string]any{"a": "b"}}, "a/b": int64(1), "": "x",
		"spec": map[string]any{"list": []any{"x", int64(2), 1.5, nil}}, "big": strings.Repeat("x", 100_000),
	}
	for _, patch := range []string{
		`[]`,
		`[{"op":"add","path":"/metadata/labels/c","value":"d"}]`,
		`[{"op":"add","path":"/data","value":{"x":[1]}},{"op":"add","path":"/data/x/-","value":2}]`,
		`[{"op":"add","path":"/data/x","value":1}]`,
		`[{"op":"remove","path":"/spec"},{"op":"test","path":"/kind","value":"Pod"}]`,
		`[{"op":"remove","path":"/nothing"}]`,
		`[{"op":"copy","from":"/metadata/labels","path":"/spec/labels"},{"op":"move","from":"/kind","path":"/spec/list/1"}]`,
		`[{"op":"copy","from":"/metadata","path":"/nowhere/labels"}]`,
		`[{"op":"test","path":"/metadata/labels","value":{"a":"c"}}]`,
		`[{"op":"test","path":"","value":{"a":"c"}}]`,
		`[{"op":"replace","path":"","value":{"a":"c"}}]`,
		`[{"op":"replace","path":"/a~1b","value":2},{"op":"add","path":"/c~0d","value":2}]`,
		`[{"op":"add","path":"/","value":"y"},{"op":"add","path":"x/kind","value":"z"}]`,
		`[{"op":"add","path":"kind","value":"z"}]`,
		`[{"op":"move","from":"","path":"/spec/all"}]`,
	} {
		operations, err := jsonpatch.DecodePatch([]byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		named := &members{names: map[string]bool{}}
		for _, o := range operations {
			for _, key := range []string{"path", "from"} {
				var path string
				if raw := o[key]; raw != nil {
					if err := json.Unmarshal(*raw, &path); err != nil {
						t.Fatal(err)
					}
					named.add(path)
				}
			}
		}
		meter := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes)
		got, err := apply(meter, operations, named, object)
		want, wantErr := apply(nil, operations, &members{all: true}, object)
		if !value.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s:\n got %s, %v\nwant %s, %v", patch, value.JSON(got), err, value.JSON(want), wantErr)
		}
		if steps, _ := meter.Used(); (steps > 100_000) != named.all {
			t.Errorf("%s takes %d steps", patch, steps)
		}
	}
}

// TestCopies compares the bound of what a patch copies with what it copies.
func TestCopies(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"big": strings.Repeat("x", 1000), "l": []any{strings.Repeat("y", 100), "z"}}}
	size, spec := len(value.JSON(object)), value.TextLength(object["spec"], maxCopied)
	big, z := value.TextLength(strings.Repeat("x", 1000), maxCopied), value.TextLength("z", maxCopied)
	for _, c := range []struct {
		name    string
		changes copies
		bound   int
	}{
		{"nothing", copies{{op: "add", path: "/a", value: 10}}, 0},
		{"a part", copies{{op: "copy", from: "/spec/big", path: "/a"}, {op: "copy", from: "/spec/l/1", path: "/b"}}, big + z},
		{"the same part again", copies{{op: "copy", from: "/spec/l/1", path: "/spec/a"}, {op: "copy", from: "/spec/l/1", path: "/spec/b"}}, 2 * z},
		{"a part that another operation changed", copies{{op: "add", path: "/spec/a", value: 10}, {op: "copy", from: "/spec", path: "/b"}}, size + 10},
		{"a part below one that was changed", copies{{op: "move", from: "/spec/big", path: "/spec/l"}, {op: "copy", from: "/spec/l/1", path: "/b"}}, size},
		{"an element that has moved", copies{{op: "remove", path: "/spec/l/0"}, {op: "copy", from: "/spec/l/1", path: "/b"}}, size},
		{"elements that have not moved", copies{{op: "add", path: "/spec/l/-"}, {op: "copy", from: "/spec/l/1", path: "/b"}}, z},
		{"a path in another notation", copies{{op: "add", path: "x/spec/big"}, {op: "copy", from: "/spec/l/1", path: "/b"}}, size},
		{"an index in another notation", copies{{op: "copy", from: "/spec/l/01", path: "/b"}}, size},
		{"a key in another notation", copies{{op: "add", path: "/a~b"}, {op: "copy", from: "/spec/l/1", path: "/b"}}, size},
		{"a long path", copies{{op: "copy", from: strings.Repeat("/x", 40), path: "/b"}}, size},
		{"copies of copies", copies{{op: "copy", from: "/spec", path: "/spec/a"}, {op: "copy", from: "/spec", path: "/spec/b"}}, spec + size + spec},
	} {
		if got := c.changes.bound(object, size); got != c.bound {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.bound)
		}
	}
	var doubling copies
	for range 10_000 {
		doubling = append(doubling, change{op: "copy", from: "/spec", path: "/spec/a"})
	}
	if got := doubling.bound(object, size); got <= maxCopied || got > 3*maxCopied {
		t.Errorf("copies that double: %d bytes", got)
	}
}
