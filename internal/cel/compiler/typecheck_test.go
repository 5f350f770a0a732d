package compiler_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// tree is a Shape in literal form: a map of members, a list of one shape, "any", "scalar", or "self" for the whole shape again.
type tree struct {
	v    any
	root any
}

func (t tree) is(word string) bool { s, _ := t.v.(string); return s == word }

func (t tree) Field(name string) (compiler.Shape, bool) {
	m, _ := t.v.(map[string]any)
	for _, key := range []string{name, "*"} {
		if f, ok := m[key]; ok {
			if f == "self" {
				f = t.root
			}
			return tree{f, t.root}, true
		}
	}
	return tree{"any", nil}, t.is("any")
}

func (t tree) Element() (compiler.Shape, bool) {
	if l, ok := t.v.([]any); ok {
		return tree{l[0], t.root}, true
	}
	return tree{"any", nil}, t.is("any")
}

func (t tree) Names() []string {
	var out []string
	m, _ := t.v.(map[string]any)
	for k := range m {
		if k != "*" {
			out = append(out, k)
		}
	}
	return out
}

func (t tree) Scalar() string {
	for _, name := range []string{"integer", "boolean"} {
		if t.is(name) {
			return name
		}
	}
	return ""
}

func TestTypeCheck(t *testing.T) {
	root := map[string]any{
		"name": "scalar", "count": "integer", "on": "boolean", "labels": map[string]any{"*": "scalar"}, "free": "any", "self": "self",
		"items": []any{map[string]any{"x-odd": "scalar", "image": "scalar"}},
	}
	for _, c := range []struct{ expression, want string }{
		{"object.name == 'x' && object.labels.anything == 'y' && object.free.a.b == 1", ""},
		{"object.items.all(i, i.image == 'x' && i.x__dash__odd == 1)", ""},
		{"object.self.self.name == 'a' && oldObject.name == 'x'", ""},
		{"object.nam == 'x'", "ERROR: <input>:1:7: undefined field 'nam'; | object.nam == 'x'; | ......^"},
		{"object.items.all(i, i.nope == 1) && object.self.gone", "undefined field 'nope'; | object.items.all(i, i.nope == 1) && object.self.gone; | .....................^|undefined field 'gone'"},
		{"object.name + [1]", ""},
		{"object.count <= 3.5 && object.on && object.count + 1 > size(object.items) && object.count in [1, 2]", ""},
		{"(object.on ? object.count : 'none') == 'none' && string(object.count) == '1'", ""},
		{"object.count <= '3'", "ERROR: <input>:1:14: found no matching overload for '_<=_' applied to '(int, string)'"},
		{"object.on == 'true'", "found no matching overload for '_==_' applied to '(bool, string)'"},
		{"variables.n > '3'", ""},
	} {
		compiler, err := compiler.NewTypeCheck(env.Declarations{}, "Thing", tree{root, root})
		if err != nil {
			t.Fatal(err)
		}
		_, err = compiler.Compile(c.expression, typecheck.Any)
		got := compiler.FieldMistakes(err)
		wants := strings.Split(c.want, "|undefined")
		if c.want == "" {
			wants = nil
		}
		if len(got) != len(wants) {
			t.Errorf("%s: %q", c.expression, got)
			continue
		}
		if len(got) > 0 && !strings.Contains(got[0].Text, wants[0]) {
			t.Errorf("%s: %q", c.expression, got)
		}
	}
	compiler, err := compiler.NewTypeCheck(env.Declarations{}, "Thing", tree{"any", nil})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compiler.Compile("object.anything == 1", typecheck.Bool); err != nil {
		t.Errorf("of an unknown kind something is said: %v", err)
	}
	if compiler.FieldMistakes(fmt.Errorf("another")) != nil {
		t.Error("another error names fields")
	}
}
