package celenv

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/trace"
)

// The trace of an expression contains the value of each part that was evaluated. In loops, it is the value for the element that decided.
func TestExplained(t *testing.T) {
	object := map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": "n", "labels": map[string]any{"a": "c"}},
		"spec": map[string]any{"replicas": int64(2), "containers": []any{
			map[string]any{"name": "one", "image": "a/x:1"}, map[string]any{"name": "two", "image": "b/x:1"},
		}},
	}
	const containers = `object.spec.containers = [map[image:a/x:1 name:one] map[image:b/x:1 name:two]]`
	for expression, want := range map[string]string{
		"object.spec.containers.all(c, c.image.startsWith('a/') && !c.image.endsWith(':latest'))": containers + `
c.image.startsWith("a/") && !c.image.endsWith(":latest") = false
  c.image.startsWith("a/") = false
    c.image = b/x:1`,
		"object.spec.replicas > 3 || object.metadata.name == 'x'": `object.spec.replicas > 3 = false
  object.spec.replicas = 2
object.metadata.name == "x" = false
  object.metadata.name = n`,
		"object.spec.replicas > 1 || object.metadata.name == 'x'": `object.spec.replicas > 1 = true
  object.spec.replicas = 2`,
		"has(object.spec.x) ? object.spec.x : object.spec.?y.orValue('d') == 'd'": `has(object.spec.x) = false
object.spec.?y.orValue("d") == "d" = true
  object.spec.?y.orValue("d") = d
    object.spec.?y = optional.none()`,
		"object.spec.containers.exists(c, c.image == 'zz') && size(object.spec.containers) > variables.n": `object.spec.containers.exists(c, c.image == "zz") = false
  ` + containers + `
  c.image == "zz" = false
    c.image = b/x:1`,
		"object.spec.containers.filter(c, c.image.contains('b')).map(c, c.name)[0] == 'x'": `object.spec.containers.filter(c, c.image.contains("b")).map(c, c.name)[0] = two
  object.spec.containers.filter(c, c.image.contains("b")) = [map[image:b/x:1 name:two]]
    ` + containers + `
    c.image.contains("b") = true
      c.image = b/x:1
    c = map[image:b/x:1 name:two]
  c.name = two`,
		"object.metadata.labels['a'] in ['a', string(object.kind)]": `object.metadata.labels["a"] = c
string(object.kind) = Pod
  object.kind = Pod`,
		"object.spec.missing == 1": `object.spec.missing: no such key: missing`,
		"variables.n < 2":          `variables.n = 3`,
		"[1, 2].exists_one(x, x == object.spec.replicas)": `x == object.spec.replicas = true
  x = 2
  object.spec.replicas = 2`,
		"duration('1h') > duration('2h') || {'a': variables.n}.size() == 2": `duration("1h") > duration("2h") = false
{"a": variables.n}.size() == 2 = false
  {"a": variables.n}.size() = 1
    variables.n = 3`,
	} {
		c := NewCompiler(Declarations{})
		if err := c.Variable("n", "object.spec.replicas + 1"); err != nil {
			t.Fatal(err)
		}
		x, err := c.Compile(expression, Any)
		if err != nil {
			t.Fatal(expression, err)
		}
		plain, failed := c.Variables().Evaluate(t.Context(), &Input{Object: object}, Budget).Value(x)
		log := &trace.Log{}
		log.Begin("p", "r")
		e := c.Variables().Evaluate(t.Context(), &Input{Object: object, Trace: log}, Budget)
		v, err := e.Value(x)
		if fmt.Sprint(v, err) != fmt.Sprint(plain, failed) {
			t.Errorf("%s: %v, %v with notes, and %v, %v without", expression, v, err, plain, failed)
		}
		notes := log.Rules[0].Variables
		last := notes[len(notes)-1]
		var got []string
		for _, p := range last.Parts {
			line := strings.Repeat("  ", p.Depth) + p.Source
			if p.Error != "" {
				got = append(got, line+": "+p.Error)
			} else {
				got = append(got, fmt.Sprintf("%s = %v", line, p.Value))
			}
		}
		if text := strings.Join(got, "\n"); text != want || last.Name != expression || !last.CEL {
			t.Errorf("%s:\n%s\nwant\n%s", expression, text, want)
		}
	}
}
