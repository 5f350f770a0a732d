package patch

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// The operations, with the tolerances of the policy language.
func TestApplyJSON(t *testing.T) {
	for _, c := range []struct{ name, doc, patch, want string }{
		{"add to a map", `{"a":1}`, `[{"op":"add","path":"/b","value":2}]`, `{"a":1,"b":2}`},
		{"add inserts into a list", `{"l":[1,3]}`, `[{"op":"add","path":"/l/1","value":2}]`, `{"l":[1,2,3]}`},
		{"add at - appends", `{"l":[1]}`, `[{"op":"add","path":"/l/-","value":2}]`, `{"l":[1,2]}`},
		{"add makes missing parents", `{}`, `[{"op":"add","path":"/a/b/c","value":1}]`, `{"a":{"b":{"c":1}}}`},
		{"a missing parent before an index is a list", `{}`, `[{"op":"add","path":"/a/1/b","value":1},{"op":"add","path":"/l/-","value":2}]`, `{"a":[null,{"b":1}],"l":[2]}`},
		{"a null is no parent", `{"a":null}`, `[{"op":"add","path":"/a/b","value":1}]`, `{"a":{"b":1}}`},
		{"a null of the same patch is no parent", `{}`, `[{"op":"add","path":"/a","value":null},{"op":"add","path":"/a/b","value":1}]`, `{"a":{"b":1}}`},
		{"~1 and ~0 are escapes", `{}`, `[{"op":"add","path":"/a~1b~0c","value":1}]`, `{"a/b~c":1}`},
		{"also in missing parents", `{}`, `[{"op":"add","path":"/a~1b/c~0d/e","value":1}]`, `{"a/b":{"c~d":{"e":1}}}`},
		{"negative indexes count from the end", `{"l":[1,2,3]}`, `[{"op":"remove","path":"/l/-1"},{"op":"replace","path":"/l/-2","value":9}]`, `{"l":[9,2]}`},
		{"remove", `{"a":1,"l":[1,2]}`, `[{"op":"remove","path":"/a"},{"op":"remove","path":"/l/0"}]`, `{"l":[2]}`},
		{"remove of what is not there is no error", `{"l":[]}`, `[{"op":"remove","path":"/a/b"},{"op":"remove","path":"/c"},{"op":"remove","path":"/l/5"}]`, `{"l":[]}`},
		{"replace", `{"a":{"b":1}}`, `[{"op":"replace","path":"/a/b","value":[]}]`, `{"a":{"b":[]}}`},
		{"replace the document", `{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{"move", `{"a":{"x":1},"l":[]}`, `[{"op":"move","from":"/a/x","path":"/l/-"}]`, `{"a":{},"l":[1]}`},
		{"copy", `{"a":{"x":1}}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/y","value":2}]`, `{"a":{"x":1},"b":{"x":1,"y":2}}`},
		{"test", `{"a":{"n":1.0}}`, `[{"op":"test","path":"/a","value":{"n":1}},{"op":"test","path":"/b","value":null}]`, `{"a":{"n":1}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := decode(t, c.doc)
			ops, err := ParseJSONPatch(c.patch)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ApplyJSON(nil, doc, ops)
			if err != nil || !value.Equal(got, decode(t, c.want)) {
				t.Errorf("\n got %s, %v\nwant %s", value.JSON(got), err, c.want)
			}
			if value.JSON(doc) != value.JSON(decode(t, c.doc)) {
				t.Error("the document was modified")
			}
		})
	}
}

func TestApplyJSONErrors(t *testing.T) {
	for _, c := range []struct{ doc, patch, want string }{
		{`{}`, `[{"op":"replace","path":"/a/b","value":1}]`, "replace operation does not apply: doc is missing path: /a/b: missing value"},
		{`{"a":{}}`, `[{"op":"replace","path":"/a/b","value":1}]`, "replace operation does not apply: doc is missing key: /a/b: missing value"},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, "testing value /a failed: test failed"},
		{`{"a":"x"}`, `[{"op":"add","path":"/a/b","value":1}]`, "invalid state detected"},
		{`{"l":[]}`, `[{"op":"add","path":"/l/x","value":1}]`, `error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax`},
		{`{"l":[]}`, `[{"op":"add","path":"/l/3","value":1}]`, "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced"},
		{`{}`, `[{"op":"move","from":"/a","path":"/b"}]`, "error in move for path: 'a': unable to get nonexistent key: a: missing value"},
		{`{}`, `[{"op":"copy","from":"/a/b","path":"/b"}]`, `copy operation does not apply: doc is missing from path: "/a/b": missing value`},
		{`{}`, `[{"op":"add","path":"/l/100000/x","value":1}]`, "Unable to access invalid index: 100000: invalid index referenced"},
		{`{}`, `[{"op":"add","path":"/l/999999999/x","value":1}]`, "Unable to access invalid index: 999999999: invalid index referenced"},
	} {
		ops, err := ParseJSONPatch(c.patch)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ApplyJSON(nil, decode(t, c.doc), ops); err == nil || err.Error() != c.want {
			t.Errorf("%s on %s: %s, %v\nwant %s", c.patch, c.doc, value.JSON(got), err, c.want)
		}
	}
}

func TestParseJSONPatch(t *testing.T) {
	ops, err := ParseJSONPatch("- op: add\n  path: /a\n  value: yes\n- {op: remove, path: /b}\n")
	if err != nil || len(ops) != 2 || ops[0].Value != true || ops[1].Op != "remove" {
		t.Errorf("%+v, %v", ops, err)
	}
	if ops, err := ParseJSONPatch(""); err != nil || len(ops) != 0 {
		t.Errorf("nothing: %v, %v", ops, err)
	}
	for text, want := range map[string]string{
		"- " + strings.Repeat("a", maxYAML):     "the text of the patch has 262146 bytes; a patch that is not JSON may have 262144",
		"{op: add}":                             "a JSON patch is a list of operations, found a map",
		"[1]":                                   "invalid operation 1: unsupported operation",
		"[{op: merge, path: /a}]":               `invalid operation {"op":"merge","path":"/a"}: unsupported operation`,
		"[{op: add, path: /a}]":                 `invalid operation {"op":"add","path":"/a"}: failed to decode 'value': operation, missing value field: missing value`,
		"[{op: copy, path: /a}]":                `invalid operation {"op":"copy","path":"/a"}: failed to decode 'from': operation missing from field: missing value`,
		"[{op: remove}]":                        `invalid operation {"op":"remove"}: failed to decode 'path': operation missing path field: missing value`,
		"[{op: remove, path: [a]}]":             `invalid operation {"op":"remove","path":["a"]}: failed to decode 'path': it is not a string`,
		"[{op: add, path: /a, value: 1}":        "yaml: line 1: did not find expected ',' or ']'",
		"[{op: add, path: /a, value: &a [*a]}]": "yaml: anchor 'a' value contains itself",
	} {
		if _, err := ParseJSONPatch(text); err == nil || err.Error() != want {
			t.Errorf("%.80s: %v\nwant %s", text, err, want)
		}
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1}`, `{"a":1.0}`, `[]`},
		{`{"metadata":{}}`, `{"metadata":{"labels":{"a":"b"}}}`, `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`},
		{`{"a":1,"b":{"c":[1]}}`, `{"b":{"c":{"d":null}}}`, `[{"op":"remove","path":"/a"},{"op":"replace","path":"/b/c","value":{"d":null}}]`},
		{`{"l":[{"name":"a"},{"name":"b"}]}`, `{"l":[{"name":"n"},{"name":"a","x":1},{"name":"b"}]}`,
			`[{"op":"add","path":"/l/0","value":{"name":"n"}},{"op":"add","path":"/l/1/x","value":1}]`},
		{`{"l":[1,2,3,4]}`, `{"l":[1,4]}`, `[{"op":"remove","path":"/l/2"},{"op":"remove","path":"/l/1"}]`},
		{`{"l":[1]}`, `{"l":[1,2,3]}`, `[{"op":"add","path":"/l/1","value":2},{"op":"add","path":"/l/2","value":3}]`},
		{`{"a/b":1}`, `{"c~d":9007199254740993}`, `[{"op":"remove","path":"/a~1b"},{"op":"add","path":"/c~0d","value":9007199254740993}]`},
		{`{"a":{"":[]},"b":{"":1}}`, `{"a":{"":[{"":0}]},"b":{"":1,"c":2}}`,
			`[{"op":"replace","path":"/a","value":{"":[{"":0}]}},{"op":"add","path":"/b/c","value":2}]`},
	} {
		a, b := decode(t, c.a), decode(t, c.b)
		ops := Diff(a, b)
		if got := string(AppendJSON(nil, ops)); got != c.want {
			t.Errorf("%s to %s:\n got %s\nwant %s", c.a, c.b, got, c.want)
		}
		if got, err := ApplyJSON(nil, a, ops); err != nil || !value.Equal(got, b) {
			t.Errorf("%s applied: %s, %v", c.want, value.JSON(got), err)
		}
	}
}

// `/` refers to the whole document, as in Kyverno. A value that is moved into a part of itself must not contain itself, because a walk over
// such a value never ends.
func TestMoveIntoItself(t *testing.T) {
	v := map[string]any{"a": []any{int64(0), map[string]any{}}}
	ops, err := ParseJSONPatch(`[{"op":"add","path":"/b/1/c/-","value":{}},{"op":"move","from":"/","path":"/a/1"}]`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ApplyJSON(meter(), v, ops)
	if err != nil {
		t.Fatal(err)
	}
	checkDiff(t, v, got)
}
