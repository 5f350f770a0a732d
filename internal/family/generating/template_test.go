package generating

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types/ref"

	celcompiler "ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/value"
)

// rendered compiles a template and renders it for an object. If that fails, it returns the mistakes or the error as text.
func rendered(t *testing.T, source string, interpolate bool) string {
	t.Helper()
	c := celcompiler.New(env.Declarations{})
	compile := func(text string) (*run.Expression, error) { return c.Compile(text, typecheck.Any) }
	if !interpolate {
		compile = nil
	}
	made, mistakes := compileTemplate(source, compile)
	var out strings.Builder
	for _, m := range mistakes {
		text, _, _ := strings.Cut(m.Error(), "\n")
		fmt.Fprintf(&out, "mistake: %s\n", text)
	}
	if len(mistakes) > 0 {
		return out.String()
	}
	e := c.Variables().Evaluate(t.Context(), &run.Input{Object: map[string]any{
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"x": "y"}}, "n": int64(3), "f": 2.5, "list": []any{"p", int64(1)}, "none": nil,
	}}, price.Budget)
	objects, err := made.render(func(x *run.Expression) (ref.Val, error) { return e.Value(x) })
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	for _, o := range objects {
		out.WriteString(value.JSON(o) + "\n")
	}
	return out.String()
}

func TestTemplate(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"scalars", "a: 1\nb: 2.5\nc: yes\nd: true\ne:\nf: 2020-01-01\ng: '7'\n1: x\n", `{"1":"x","a":1,"b":2.5,"c":"yes","d":true,"e":null,"f":"2020-01-01","g":"7"}` + "\n"},
		{"values take the place of whole placeholders", "a: (( object.n ))\nb: ((object.list))\nc: [(( object.metadata.labels )), (( object.f ))]\nd: (( object.none ))\n",
			`{"a":3,"b":["p",1],"c":[{"x":"y"},2.5],"d":null}` + "\n"},
		{"scalars in texts", "a: x (( object.n )) (( object.f )) (( true )) (( object.metadata.name ))!\n", `{"a":"x 3 2.5 true a!"}` + "\n"},
		{"braces, texts and escapes", `a: "(( '))' + string(size('(' + ')')) ))"` + "\n" + `b: '\((literal)) (( (1 + 2) * 3 ))'` + "\n" + `c: '\((' ` + "\n", `{"a":"))2","b":"((literal)) 9","c":"(("}` + "\n"},
		{"several documents", "---\n# nothing\n---\na: 1\n---\n---\nb: (( object.n ))\n", `{"a":1}` + "\n" + `{"b":3}` + "\n"},
		{"anchors and merge keys", "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: [*x]\nw: {<<: [{b: 5}, *x]}\n", `{"w":{"a":1,"b":5},"x":{"a":1,"b":2},"y":{"a":1,"b":3},"z":[{"a":1,"b":2}]}` + "\n"},
		{"a merge key beside a placeholder", "x: &x {a: 1}\ny:\n  <<: *x\n  b: (( object.n ))\n", "mistake: line 3: YAML merge keys are not supported beside placeholders\n"},
		{"a placeholder in a merged mapping", "x: &x {a: (( object.n ))}\ny:\n  <<: *x\n", "mistake: line 3: YAML merge keys are not supported beside placeholders\n"},
		{"a placeholder in a key", "a:\n  (( object.n )): 1\n", "mistake: line 2: placeholders are not supported in mapping keys; write the key, or make the mapping with a placeholder\n"},
		{"all mistakes", "a: (( object.n\nb: (( nothing ))\nc: (( ))\nd: (( 1 + ))\n", "mistake: line 1: placeholder \"(( object.n\" is not closed: it ends with ))\n" +
			"mistake: line 2: invalid placeholder expression \"nothing\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n" +
			"mistake: line 3: invalid placeholder expression \"\": compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n" +
			"mistake: line 4: invalid placeholder expression \"1 +\": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n"},
		{"no mapping", "- a\n---\nb\n", "mistake: line 1: document must be a mapping describing a resource\nmistake: line 3: document must be a mapping describing a resource\n"},
		{"nothing", "---\n# only a comment\n", "mistake: template must contain at least one YAML document\n"},
		{"no YAML", "a: [1\n", "mistake: failed to parse YAML: yaml: line 1: did not find expected ',' or ']'\n"},
		{"a key twice", "a: 1\na: 2\n", "mistake: line 2: mapping key \"a\" is already defined\n"},
		{"a list in a text", "a:\n  b: x (( object.list ))\n", "error: failed to render generation template: document 1: field \"a\": field \"b\": placeholder \"object.list\" embedded in a string must evaluate to a scalar, got []interface {}; use a whole-value placeholder for structured results\n"},
		{"no value", "a:\n- b: (( object.nope ))\n", "error: failed to render generation template: document 1: field \"a\": item 0: field \"b\": failed to evaluate placeholder \"object.nope\": no such key: nope\n"},
		{"no JSON value", "a: (( optional.none() ))\n", "error: failed to render generation template: document 1: field \"a\": failed to convert placeholder \"optional.none()\" result: optional.none() dereference\n"},
		{"a quantity", "a: (( quantity('1') ))\n", "error: failed to render generation template: document 1: field \"a\": failed to convert placeholder \"quantity('1')\" result: type conversion error from 'Quantity' to '*structpb.Value'\n"},
		{"a time", "a: (( timestamp('2020-01-01T00:00:00Z') ))\nb: (( duration('1h') ))\nc: (( b'x' ))\n", `{"a":"2020-01-01T00:00:00Z","b":"3600s","c":"eA=="}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rendered(t, c.source, true); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	if got, want := rendered(t, "(( k )): '\\((x)) (( object.n ))'\n", false), `{"(( k ))":"\\((x)) (( object.n ))"}`+"\n"; got != want {
		t.Errorf("without interpolation: %s, want %s", got, want)
	}
}

// Templates that would become very large are a mistake.
func TestTemplateBombs(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for name, source := range map[string]string{
		"billion laughs": laughs,
		"itself":         "a: &a\n  b: *a\n",
		"deep":           "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		if got := rendered(t, source, true); !strings.HasPrefix(got, "mistake: ") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}
