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
