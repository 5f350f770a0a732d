package celenv

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/value"
)

// Our own nodes have the same results as the library's own program: the same value, or an error with the same text.
func TestPlanLikeTheLibrary(t *testing.T) {
	objects := []string{
		`{}`, `null`, `{"a": null, "n": 1, "l": [], "m": {}}`,
		`{"a": {"b": {"c": 1}}, "n": 7, "f": 1.5, "s": "text", "t": true, "l": [1, 2, 3], "texts": ["a", "b"], "m": {"x": "y", "z": 2},
		  "objects": [{"name": "a", "n": 1, "on": true}, {"name": "b"}, {"name": "c", "n": 3, "l": ["x"]}]}`,
		`{"a": "text", "n": "1", "l": {"x": 1}, "m": [1], "objects": [1, "a", null, {"name": []}], "s": 5, "t": "true"}`,
		`{"a": {"b": 5}, "l": [1, 1.0, "1", null, {"a": 1}], "objects": {"name": {"n": 1}, "o": {"n": 2}}, "s": "", "texts": [], "n": -3, "f": 2.0}`,
	}
	expressions := []string{
		"object", "object.a", "object.a.b", "object.a.b.c", "object.?a", "object.?a.b", "object.?a.?b.?c", "object.?a.?b.?c.orValue(5)", "object.a.?b.orValue(1)",
		"object.?nope.orValue('x')", "object.?nope.?more.hasValue()", "object.?a.hasValue()", "has(object.a)", "has(object.a.b)", "has(object.a.b.c)", "has(object.nope)",
		"has(object.a.nope)", "!has(object.m.x) || object.m.x == 'y'", "object['a']", "object['a']['b']", "object[?'a']", "object.l[0]", "object.l[5]", "object.l[?0]",
		"object.l[object.n]", "object.m[object.s]", "object.objects[0].name", "object.objects[?0].?name.orValue('none')", "object.l.size()", "size(object.m)", "size(object.s)",
		"object.l == [1, 2, 3]", "object.l == object.l", "object.m == {'x': dyn('y'), 'z': dyn(2)}", "object.m == object.m", "object == object", "object.l != object.m", "object.n == 7",
		"object.n == 7.0", "object.n > 3", "object.n + 1", "object.n + 1.0", "object.f * 2.0", "object.s + 'x'", "object.s + object.s == 'texttext'", "-object.n", "!object.t", "object.t && true",
		"object.t || object.nope", "object.nope || object.t", "object.t ? object.s : object.n", "object.nope ? 1 : 2", "(object.t ? object.m : object.a).x", "1 in object.l", "'a' in object.texts",
		"'x' in object.m", "object.n in [1, 7]", "object.s in ['text', 'x']", "object.a in object.l", "object.l + object.l", "object.l + [4]", "[0] + object.l", "object.l + object.texts",
		"object.?l.orValue([]) + object.?none.orValue([])", "object.l.all(x, x > 0)", "object.l.exists(x, x == 2)", "object.l.exists_one(x, x == 2)", "object.l.map(x, x * 2)",
		"object.l.filter(x, x > 1)", "object.l.map(x, x > 1, x)", "object.m.all(k, k != 'nope')", "object.m.exists(k, object.m[k] == 2)", "object.m.map(k, k).size()",
		"object.objects.all(o, has(o.name))", "object.objects.all(o, o.?n.orValue(1) > 0)", "object.objects.map(o, o.name)", "object.objects.filter(o, o.?on.orValue(false)).size()",
		"object.objects.all(o, o.?l.orValue([]).all(x, x == 'x'))", "object.objects.exists(object, object.name == 'a')", "object.l.all(i, v, i < v)", "object.m.transformMap(k, v, v)",
		"object.l.transformList(i, v, v)", "object.s.startsWith('te')", "object.s.endsWith('xt')", "object.s.contains('ex')", "object.s.matches('^t.*')", "object.s.matches(object.s)",
		"object.s.find('[a-z]')", "object.s.findAll('[a-z]')", "object.s.findAll('[a-z]', 2)", "object.s.split('e')", "object.texts.join(',')", "object.texts.join()", "object.s.replace('t', 'T')", "object.s.substring(1)",
		"object.s.upperAscii()", "object.s.charAt(1)", "object.s.indexOf('x')", "'%s %d'.format([object.s, object.n])", "string(object.n)", "int(object.s)", "double(object.n)", "bool(object.t)", "type(object.l)",
		"type(object.m) == map", "duration('1h') + duration('1m')", "object.l.sum()", "object.l.min()", "object.l.max()", "object.l.isSorted()", "object.l.indexOf(2)", "object.l.slice(0, 1)",
		"object.l.distinct()", "object.l.sort()", "object.objects.sortBy(o, o.name)", "object.l.reverse()", "object.l.flatten()", "lists.range(3)", "sets.contains(object.l, [1])", "optional.of(object.n).orValue(1)",
		"optional.none().or(object.?n)", "object.?n.or(optional.of(1))", "object.?n.optMap(x, x + 1)", "object.?m.optFlatMap(m, m.?x)", "{'a': object.a, 'b': object.n}.b", "{'a': object.n}", "[object.n, object.n]",
		"[?object.?nope, ?object.?n]", "{?'a': object.?nope}", "quantity('1k').isGreaterThan(quantity('1'))", "url('https://a.b/c').getHost()", "ip('1.2.3.4').family()", "semver('1.2.3').major()", "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
		"object.l.map(x, object.l.map(y, y))", "object.l.all(x, object.l.exists(y, y == x))", "object.?objects[0].?name", "object.objects[0].?l[?0].orValue('z')", "dyn(object.l)[1]", "object.l[1.0]", "1 / 0", "object.n / 0", "object.n % 2",
		"object.objects.map(o, o.?name.orValue('q')).size()", "object.a.b.c.d", "object.?a.b.c.d", "object.s.x", "object.?s.x", "object.?s.?x", "has(object.s.x)", "has(object.?a.b)", "object.l.x", "object.?l.?x.orValue(0)", "null == object.a", "object.a == null",
		"timestamp('2024-01-02T03:04:05Z').getHours()", "timestamp(object.s)", "duration(object.s)", "bytes(object.s)", "[1, 2][object.n]", "'abc' < object.s", "object.t == true", "true == object.t", "object.f == 2", "object.f < 2",
		// has() and members of a conditional, of an element, and of a made object
		"has((object.t ? object.m : object.a).x)", "has((object.t ? object.a : object.m).b)", "!has((object.t ? object.m : object.a).nope)", "(object.t ? object.m : object.a).?x", "(object.t ? object.m : object.a).?x.orValue('d')",
		"(object.t ? object.m : object.a)['x']", "(object.t ? object.m : object.a)[?'x']", "has((object.t ? object.m : object.nope).x) && (object.t ? object.m : object.nope).x == 'y'", "has((object.t ? (object.n > 1 ? object.a : object.m) : object.m).b)",
		"has((object.t ? object.objects[0] : object.m).name)", "has((object.t ? object : object.m).a.b)", "has((object.nope ? object : object.m).a)", "object.objects.all(o, has((o.name == 'a' ? o : object).n))", "object.objects.exists(o, has((o == null ? object : o).name))",
		"has(object.objects[0].name)", "has(object.objects[0].nope)", "has(object.l[0].a)", "has([object][0].a)", "has({'o': object}.o.a)", "has(object.?objects[0].name)", "object[object.t ? 'a' : 'n']", "has(object[object.t ? 'a' : 'n'].b)", "has(dyn(object).a.b)",
	}
	of := Declarations{}.env()
	for _, text := range expressions {
		checked, issues := of.Compile(text)
		if issues.Err() != nil {
			t.Errorf("%s: %v", text, issues.Err())
			continue
		}
		theirs, err := of.Program(checked, cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c := NewCompiler(Declarations{})
		ours, err := c.Compile(text, Any)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, o := range objects {
			object, err := value.DecodeJSON([]byte(o))
			if err != nil {
				t.Fatal(err)
			}
			v, _, err := theirs.Eval(map[string]any{"object": object})
			want := valueOrError(v, err)
			w, err := c.Variables().Evaluate(t.Context(), &Input{Object: object}, Budget).Value(ours)
			if e, ok := err.(*EvaluationError); ok {
				err = e.Err
			}
			if got := valueOrError(w, err); got != want {
				t.Errorf("%s of %s\n got %s\nwant %s", text, o, got, want)
			}
		}
	}
}

func valueOrError(v any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	made, ok := v.(ref.Val)
	if !ok {
		return fmt.Sprint(v)
	}
	d, err := decoded(made, maxNestingOfValues)
	if err != nil {
		return fmt.Sprintf("%s %v", made.Type().TypeName(), made.Value())
	}
	return made.Type().TypeName() + " " + value.JSON(d)
}
