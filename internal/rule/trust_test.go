package rule_test

import (
	"strings"
	"testing"
)

const patchRule = `
name: r
match: {any: [{resources: {kinds: ['*']}}]}
context:
- name: names
  variable: {value: [a, b]}
mutate:
  patchesJson6902: |-
`

// TestT5PatchIsReadBeforeItsVariables: the text of a JSON patch is decoded first, and variables become values in the decoded tree. No
// value can add an operation, and a value of the wrong type for its place is an error.
func TestT5PatchIsReadBeforeItsVariables(t *testing.T) {
	const evil = "x\"\n- op: add\n  path: /spec/evil\n  value: \"1"
	const evilBare = "x\n- op: add\n  path: /spec/evil\n  value: y"
	const evilJSON = `x"},{"op":"add","path":"/spec/evil","value":"1`
	for name, c := range map[string]struct {
		patch string
		spec  map[string]any
		want  string
	}{
		"a line break within quotes":   {"- op: add\n  path: /spec/a\n  value: \"{{ request.object.spec.x }}\"", map[string]any{"x": evil}, `[{"op":"add","path":"/spec/a","value":"x\"\n- op: add\n  path: /spec/evil\n  value: \"1"}]`},
		"a line break without quotes":  {"- op: add\n  path: /spec/a\n  value: {{ request.object.spec.x }}", map[string]any{"x": evilBare}, `[{"op":"add","path":"/spec/a","value":"x\n- op: add\n  path: /spec/evil\n  value: y"}]`},
		"a line break in a plain text": {"- op: add\n  path: /spec/a\n  value: v-{{ request.object.spec.x }}", map[string]any{"x": evilBare}, `[{"op":"add","path":"/spec/a","value":"v-x\n- op: add\n  path: /spec/evil\n  value: y"}]`},
		"JSON":                         {`[{"op":"add","path":"/spec/a","value":"{{ request.object.spec.x }}"}]`, map[string]any{"x": evilJSON}, `[{"op":"add","path":"/spec/a","value":"x\"},{\"op\":\"add\",\"path\":\"/spec/evil\",\"value\":\"1"}]`},
		"a line break in a path":       {"- op: add\n  path: /spec/{{ request.object.spec.x }}\n  value: 1", map[string]any{"x": evilBare}, `[{"op":"add","path":"/spec/x\n- op: add\n  path: ","value":{"spec":{"evil\n  value: y":1}}}]`},
		"a bare map":                   {"- op: add\n  path: /spec/a\n  value: {{ request.object.spec.x }}", map[string]any{"x": map[string]any{"k": []any{"v", 1.0}}}, `[{"op":"add","path":"/spec/a","value":{"k":["v",1]}}]`},
		"a bare list, in JSON":         {`[{"op":"add","path":"/spec/a","value":{{ request.object.spec.x }} }]`, map[string]any{"x": []any{"v", true}}, `[{"op":"add","path":"/spec/a","value":["v",true]}]`},
		"a bare text stays text":       {"- {op: add, path: /spec/a, value: {{ request.object.spec.x }} }", map[string]any{"x": "123"}, `[{"op":"add","path":"/spec/a","value":"123"}]`},
		"a bare operation":             {"- {{ request.object.spec.x }}\n- {op: add, path: /spec/b, value: 1}", map[string]any{"x": map[string]any{"op": "add", "path": "/spec/a", "value": 2.0}}, `[{"op":"add","path":"/spec/a","value":2},{"op":"add","path":"/spec/b","value":1}]`},
		"a number within quotes":       {"- op: add\n  path: /spec/a\n  value: \"{{ request.object.spec.x }}\"", map[string]any{"x": 3.0}, `[{"op":"add","path":"/spec/a","value":"3"}]`},
		"a block":                      {"- op: add\n  path: /spec/a\n  value: |\n    is {{ request.object.spec.x }}\n    end", map[string]any{"x": "a\nb"}, `[{"op":"add","path":"/spec/a","value":"is a\nb\nend"}]`},
		"a key":                        {"- op: add\n  path: /spec/a\n  value: {\"{{ request.object.spec.x }}\": {{ request.object.spec.x }} }", map[string]any{"x": "k: {"}, `[{"op":"add","path":"/spec/a","value":{"k: {":"k: {"}}]`},
		"variables in variables":       {"- {op: add, path: /spec/a, value: {{ to_upper('{{ request.object.spec.x }}') }} }", map[string]any{"x": "it's"}, `[{"op":"add","path":"/spec/a","value":"IT'S"}]`},
		"a list of the author":         {"- {op: add, path: /spec/a, value: {{ names }} }", map[string]any{}, `[{"op":"add","path":"/spec/a","value":["a","b"]}]`},
		"a list in a path":             {"- {op: add, path: \"/spec/{{ request.object.spec.x }}\", value: 1}", map[string]any{"x": []any{"a"}}, `error: `},
		"a bare map as a path":         {"- {op: add, path: {{ request.object.spec.x }}, value: 1}", map[string]any{"x": map[string]any{"a": 1.0}}, `error: `},
		"a map as an operator":         {"- {op: {{ request.object.spec.x }}, path: /spec/a, value: 1}", map[string]any{"x": map[string]any{"a": 1.0}}, `error: `},
		"an operator that data write":  {"- {op: \"{{ request.object.spec.x }}\", path: /spec/a, value: 1}", map[string]any{"x": "add\n"}, `error: `},
		"an escape":                    {"- {op: add, path: /spec/a, value: \"\\{{ request.object.spec.x }}\"}\n- {op: add, path: /spec/b, value: {{ request.object.spec.x }} }", map[string]any{"x": 1.0}, `[{"op":"add","path":"/spec/a","value":"{{ request.object.spec.x }}"},{"op":"add","path":"/spec/b","value":1}]`},
	} {
		t.Run(name, func(t *testing.T) {
			r := compileRule(t, []byte(patchRule+"    "+strings.ReplaceAll(c.patch, "\n", "\n    ")), nil)
			got := evaluate(t, r, map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "p"}, "spec": c.spec}})
			got = strings.TrimPrefix(got, "pass: mutated X/p ")
			if got != c.want && (c.want != "error: " || !strings.HasPrefix(got, c.want)) {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestT5ForeignTarget is the same test for patches of existing objects.
func TestT5ForeignTarget(t *testing.T) {
	r := compileRule(t, []byte(`
name: r
match: {any: [{resources: {kinds: [X]}}]}
mutate:
  targets: [{apiVersion: v1, kind: Node, name: "n1"}]
  patchesJson6902: |-
    - op: add
      path: /metadata/labels/a
      value: "{{ request.object.spec.x }}"
`), nil)
	got := evaluate(t, r, map[string]any{
		"object":  map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"x": "1\"\n- op: add\n  path: /spec/evil\n  value: \"1"}},
		"cluster": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n1"}, "spec": map[string]any{}}},
	})
	if strings.Contains(got, `"/spec/evil"`) || strings.Contains(got, `{"evil"`) || !strings.HasPrefix(got, "pass: ") {
		t.Error(got)
	}
}

// TestT6DataAreNotEvaluated: variables in objects, in context data of a request and in texts made from them are plain text.
func TestT6DataAreNotEvaluated(t *testing.T) {
	const rule = `
name: r
match: {any: [{resources: {kinds: ['*']}}]}
context:
- name: directory
  variable: {value: {data: secret}}
- name: text
  variable: {value: "by {{ request.object.spec.x }}"}
- name: own
  variable: {value: "\\{{ directory.data }}"}
- name: place
  variable: {value: directory.data}
validate:
  message: "MESSAGE"
  deny: {}
`
	for name, c := range map[string]struct{ message, x, want string }{ // a message that cannot be resolved stays as it is
		"a variable in data":                 {"says {{ request.object.spec.x }}", "{{ directory.data }}", "says {{ directory.data }}"},
		"a literal in data":                  {"says {{ request.object.spec.x }}", "{{ 'a' }}", "says {{ 'a' }}"},
		"by way of a context variable":       {"says {{ text }}", "{{ directory.data }}", "says by {{ directory.data }}"},
		"put together by data and author":    {"says {{{ request.object.spec.x }}", "{ directory.data }}", "says {{ directory.data }}"},
		"an escape in data":                  {"says {{ request.object.spec.x }}", `\{{ x }}`, `says \{{ x }}`},
		"quotes in data":                     {"says {{ to_upper('{{ request.object.spec.x }}') }}", "') || directory.data || to_upper('", "says ') || DIRECTORY.DATA || TO_UPPER('"},
		"a variable in data, in a variable":  {"says {{ trim('{{ request.object.spec.x }}', ' ') }}", "{{ directory.data }}", "says {{ directory.data }}"},
		"a name in data, quoted":             {`says {{ directory."{{ request.object.spec.x }}" }}`, "data", "says secret"},
		"a name that is none":                {`says {{ directory."{{ request.object.spec.x }}" || 'none' }}`, `x" || directory.data || "y`, "says none"},
		"a query in data":                    {"says {{ {{ request.object.spec.x }} }}", "directory.data", ""},
		"a variable's name in data":          {"says {{ {{ request.object.spec.x }} }}", "place", ""},
		"a function in data":                 {"says {{ {{ request.object.spec.x }}(place) }}", "to_upper", ""},
		"a template of the author":           {"says {{ own }} and {{ request.object.spec.x }}", "{{ directory.data }}", "says secret and {{ directory.data }}"},
		"a query of the author":              {"says {{ {{ place }} }}", "", "says secret"},
		"a member of the author's choice":    {"says {{ directory.{{ request.object.spec.x }} }}", "data", "says secret"},
		"a path where a member should stand": {"says {{ request.object.{{ request.object.spec.x }} }}", "spec.x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := compileRule(t, []byte(strings.ReplaceAll(rule, "MESSAGE", strings.ReplaceAll(strings.ReplaceAll(c.message, `\`, `\\`), `"`, `\"`))), nil)
			got := evaluate(t, r, map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"x": c.x}}})
			if c.want == "" && strings.HasPrefix(got, "fail: "+c.message+" (a variable of this message has no value: ") && !strings.Contains(got, "secret") {
				return
			}
			if got != "fail: "+c.want {
				t.Errorf("\n got %s\nwant fail: %s", got, c.want)
			}
		})
	}
}

// TestT6AllowList: a list allows only literal values, not values that would evaluate to an allowed one.
func TestT6AllowList(t *testing.T) {
	r := compileRule(t, []byte(`
name: r
match: {any: [{resources: {kinds: ['*']}}]}
validate:
  message: bad
  deny: {conditions: {all: [{key: "team-{{ request.object.spec.x }}", operator: AnyNotIn, value: [team-a]}]}}
`), nil)
	got := evaluate(t, r, map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"x": "{{ 'a' }}"}}})
	if got != "fail: bad" {
		t.Error(got)
	}
}

// TestT6ElementsOfTheAuthor: elements of a list in the policy belong to the author, and those of the object are data.
func TestT6ElementsOfTheAuthor(t *testing.T) {
	for list, want := range map[string]string{
		"paths":                 "fail: validation failure: x; found 1",
		"request.object.spec.l": "error: ",
	} {
		r := compileRule(t, []byte(`
name: r
match: {any: [{resources: {kinds: ['*']}}]}
context: [{name: paths, variable: {value: ["request.object.spec.y"]}}]
validate:
  message: x
  foreach:
  - list: `+list+`
    deny: {conditions: {all: [{key: "{{ {{ element }} }}", operator: Equals, value: 1, message: "found {{ {{ element }} }}"}]}}
`), nil)
		got := evaluate(t, r, map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "p"},
			"spec": map[string]any{"y": 1.0, "l": []any{"request.object.spec.y"}}}})
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", list, got)
		}
	}
}
