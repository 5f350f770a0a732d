package jmespath

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

const pods = `{
	"request": {"object": {
		"metadata": {"name": "web", "labels": {"app": "web", "team.example.com/name": "shop"}},
		"spec": {
			"replicas": 3, "hostNetwork": false, "nodeName": null,
			"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}],
			"containers": [
				{"name": "one", "image": "nginx:1", "securityContext": {"capabilities": {"add": ["NET_ADMIN", "SYS_TIME"]}}},
				{"name": "two", "image": "redis", "securityContext": {}},
				{"name": "three", "image": "ghcr.io/x/y:2", "ports": [{"containerPort": 80}]}
			],
			"initContainers": [{"name": "init", "image": "busybox", "securityContext": {"capabilities": {"add": ["CHOWN"]}}}]
		}
	}},
	"numbers": [3, 1, 2], "nested": [[1, [2]], 3, [null, 4]], "empty": [], "text": "hello", "zero": 0, "nothing": null,
	"": "empty key"
}`

// The behaviour of standard JMESPath and of the dialect, on one document.
func TestSearch(t *testing.T) {
	for expression, want := range map[string]string{
		// Fields and indexes.
		"request.object.metadata.name":                           `"web"`,
		`request.object.metadata.labels."team.example.com/name"`: `"shop"`,
		`"request"."object".metadata . name`:                     `"web"`,
		"@.request.object.metadata.name":                         `"web"`,
		"numbers[0]":                                             `3`,
		"numbers[-1]":                                            `2`,
		"numbers[3]":                                             `null`,
		"numbers[-4]":                                            `null`,
		"text[0]":                                                `null`,
		"text.field":                                             `null`,
		"nothing.field":                                          `null`,
		"request.object.spec.containers[0].image":                `"nginx:1"`,
		"request.object.spec.containers[9].image":                `null`,
		"nested[0][1][0]":                                        `2`,
		"request.object.spec.replicas":                           `3`,
		// Data that a function cannot process make the left side of a flatten, a filter and .* null.
		"parse_json('{')[]":                `null`,
		"keys(numbers)[?@]":                `null`,
		"keys(numbers).*":                  `null`,
		"keys(text)[].length(@) || 'none'": `"none"`,
		"sort_by(request.object.spec.initContainers, &missing)[0].name": `"init"`,
		"max_by(request.object.spec.initContainers, &missing).name":     `"init"`,
		"'\\d+\\.'":           `"\\d+\\."`,
		"numbers[].keys(@)[]": `null`,
		// Slices.
		"numbers[:2]":           `[3, 1]`,
		"numbers[1:]":           `[1, 2]`,
		"numbers[::-1]":         `[2, 1, 3]`,
		"numbers[::2]":          `[3, 2]`,
		"numbers[-2:]":          `[1, 2]`,
		"numbers[5:1:-1]":       `[2]`,
		"numbers[10:20]":        `[]`,
		"numbers[-100:100:100]": `[3]`,
		"text[0:2]":             `null`,
		"missing[0:2]":          `null`,
		"request.object.spec.containers[0:2].name": `["one", "two"]`,
		// Projections.
		"request.object.spec.containers[*].name":                               `["one", "two", "three"]`,
		"request.object.spec.containers[].name":                                `["one", "two", "three"]`,
		"request.object.spec.containers[*].missing":                            `[]`,
		"request.object.spec.containers[*].ports[*].containerPort":             `[[80]]`,
		"request.object.spec.containers[].ports[].containerPort":               `[80]`,
		"request.object.spec.containers[*].securityContext.capabilities.add[]": `["NET_ADMIN", "SYS_TIME"]`,
		"missing[]":                        `null`,
		"missing[*]":                       `null`,
		"missing.*":                        `null`,
		"missing[?a]":                      `null`,
		"text[*]":                          `null`,
		"nested[]":                         `[1, [2], 3, 4]`,
		"nested[][]":                       `[1, 2, 3, 4]`,
		"nested[*][0]":                     `[1]`,
		"empty[]":                          `[]`,
		"request.object.metadata.labels.*": `["web", "shop"]`,
		"request.object.spec.*.missing":    `[]`,
		"*[0]":                             `[[1, [2]], 3]`,
		"numbers.*":                        `null`,
		"request.object.spec.[ephemeralContainers, initContainers, containers][].securityContext.capabilities.add[]": `["CHOWN", "NET_ADMIN", "SYS_TIME"]`,
		"request.object.spec.volumes[].keys(@)[] || ''":                                                              `["emptyDir", "name", "hostPath", "name"]`,
		"request.object.spec.none[].keys(@)[] || ''":                                                                 `""`,
		"request.object.spec.containers[].image.split(@, ':')[0]":                                                    `["nginx", "redis", "ghcr.io/x/y"]`,
		// Filters.
		"request.object.spec.volumes[?hostPath].name":                                                                `["b"]`,
		"request.object.spec.volumes[?hostPath] | length(@)":                                                         `1`,
		"request.object.spec.volumes[?!(hostPath)].name":                                                             `[]`,
		"request.object.spec.containers[?name == 'two'].image | [0]":                                                 `"redis"`,
		"request.object.spec.containers[?contains(image, ':')].name":                                                 `["one", "three"]`,
		"request.object.spec.containers[?securityContext.privileged].name":                                           `[]`,
		"request.object.spec.containers[?securityContext.a == null].name":                                            `["one", "two", "three"]`,
		"request.object.spec.containers[?securityContext.a == `null`].name":                                          `["one", "two", "three"]`,
		"request.object.spec.volumes[?contains(keys(@), 'emptyDir') && !contains(keys(emptyDir), 'sizeLimit')].name": `["a"]`,
		"numbers[?@ > `1`]":             `[3, 2]`,
		"numbers[?@ >= `2` && @ < `3`]": `[2]`,
		"numbers[?@ > `1`][]":           `[3, 2]`,
		"text[?@]":                      `null`,
		// Multi-selects.
		"request.object.spec.containers[*].[name, missing]":                  `[["one", null], ["two", null], ["three", null]]`,
		"request.object.metadata.{n: name, x: missing, \"a b\": labels.app}": `{"n": "web", "x": null, "a b": "web"}`,
		"nothing.[a]":        `null`,
		"nothing.{a: a}":     `null`,
		"[text, numbers[0]]": `["hello", 3]`,
		"missing || text":    `"hello"`,
		// Logic.
		"missing || 'default'":                    `"default"`,
		"missing.deep.er || 'default'":            `"default"`,
		"missing || alsomissing":                  `null`,
		"empty || 'default'":                      `"default"`,
		"zero || 'default'":                       `0`,
		"request.object.spec.hostNetwork || 'no'": `"no"`,
		"text && numbers[0]":                      `3`,
		"missing && text":                         `null`,
		"text && missing":                         `null`,
		"empty && text":                           `[]`,
		"!text":                                   `false`,
		"!empty":                                  `true`,
		"!zero":                                   `false`,
		"!!nothing":                               `false`,
		"text == 'hello' || missing":              `true`,
		"nothing || text && zero":                 `0`,
		"(nothing || text) && empty":              `[]`,
		// Comparisons: only numbers have an order, and a missing key compares as null.
		"zero == `0`":            `true`,
		"zero == `0.0`":          `true`,
		"numbers == `[3, 1, 2]`": `true`,
		"numbers != `[3, 1]`":    `true`,
		"missing == `null`":      `true`,
		"missing != 'x'":         `true`,
		"'b' > 'a'":              `null`,
		"numbers[0] <= `3`":      `true`,
		"missing < `3`":          `null`,
		"text == text":           `true`,
		// Pipes.
		"missing | 'x'": `"x"`,
		"request.object.spec.containers[*].name | [0]": `"one"`,
		"request.object.spec.containers | [0].missing": `null`,
		"missing.keys(@) | not_null(@, 'none')":        `"none"`,
		"numbers | sort(@) | [0]":                      `1`,
		"text | length(@) > `3` || `false`":            `true`,
		// Literals and text.
		"'it\\'s'":             `"it's"`,
		"'a\\\\b'":             `"a\\\\b"`,
		"'{{ x }}'":            `"{{ x }}"`,
		"`\"a\\`b\"`":          `"a` + "`" + `b"`,
		"`{\"a\": [1.50]}`":    `{"a": [1.5]}`,
		"\"\\u0061pp\" || 'x'": `"x"`,
		`""`:                   `"empty key"`,
		// Functions.
		"length(missing || '')": `0`,
		"to_string(missing)":    `"null"`,
		"sort_by(request.object.spec.containers, &name)[*].name":                      `["one", "three", "two"]`,
		"map(&name, request.object.spec.containers)":                                  `["one", "two", "three"]`,
		"max_by(request.object.spec.containers, &length(name)).name":                  `"three"`,
		"contains(request.object.spec.containers, request.object.spec.containers[0])": `true`,
		"time_now_utc().time_to_cron(@).split(@, ' ') | [1].to_number(@)":             `6`,
		"length(numbers,)": `3`,
	} {
		e, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for name, root := range map[string]any{"value": decode(t, pods), "root": &lazy{fields: decode(t, pods).(map[string]any)}} {
			got, err := e.Search(exampleEnv(), root)
			if err != nil || !value.Equal(got, decode(t, want)) {
				t.Errorf("%s on a %s\n got  %s, %v\n want %s", expression, name, value.JSON(got), err, want)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for expression, want := range map[string]string{
		"missing":                                `Unknown key "missing" in path`,
		"request.object.spec.missing.deeper":     `Unknown key "missing" in path`,
		"request.object.metadata.labels.\"a/b\"": `Unknown key "a/b" in path`,
		"missing[0]":                             `Unknown key "missing" in path`,
		"(missing)":                              `Unknown key "missing" in path`,
		"!missing":                               `Unknown key "missing" in path`,
		"missing.[a, b]":                         `Unknown key "missing" in path`,
		"length(missing)":                        `Invalid type for: <nil>, expected: []jmespath.JpType{"string", "array", "object"}`,
		"keys(numbers) || 'x'":                   `Invalid type for: [3 1 2], expected: []jmespath.JpType{"object"}`,
		"request.object.spec.containers[].length(missing)": `Invalid type for: <nil>, expected: []jmespath.JpType{"string", "array", "object"}`,
		"nofunc(text)":           `unknown function: nofunc`,
		"nofunc(abs('x'))":       `Invalid type for: x, expected: []jmespath.JpType{"number"}`,
		"abs()":                  `incorrect number of args`,
		"not_null()":             `Invalid arity.`,
		"to_string(&text)":       `Invalid type for: &expression, expected: []jmespath.JpType{"any"}`,
		"not_null(&text)":        `Invalid type for: &expression, expected: []jmespath.JpType{"any"}`,
		"sort_by(numbers, text)": `Invalid type for: hello, expected: []jmespath.JpType{"expref"}`,
		"keys(numbers)[*]":       `Invalid type for: [3 1 2], expected: []jmespath.JpType{"object"}`,
		"keys(numbers)[0]":       `Invalid type for: [3 1 2], expected: []jmespath.JpType{"object"}`,
		"numbers[?keys(@)]":      `Invalid type for: 3, expected: []jmespath.JpType{"object"}`,
		"nofunc(text)[]":         `unknown function: nofunc`,
		"abs()[]":                `incorrect number of args`,
		"parse_yaml(join('', [request.object.metadata.name, large]))[]": `JMESPath function 'parse_yaml': input is too large: 2000003 bytes`,
		"is_external_url('https://example.com')[]":                      `JMESPath function 'is_external_url': resolving "example.com" is not available here`,
		"numbers[::0]": `Invalid slice, step cannot be 0`,
		"map(&abs(@), request.object.spec.volumes)": `Invalid type for: map[emptyDir:map[] name:a], expected: []jmespath.JpType{"number"}`,
	} {
		input := decode(t, pods).(map[string]any)
		input["large"] = strings.Repeat("a", 2_000_000)
		got, err := MustCompile(expression).Search(nil, input)
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got  %s, %v\n want the error %s", expression, value.JSON(got), err, want)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for expression, want := range map[string]string{
		"":                     "SyntaxError: Incomplete expression",
		"  ":                   "SyntaxError: Incomplete expression",
		"a.":                   "SyntaxError: Expected identifier, lbracket, or lbrace",
		"a..b":                 "SyntaxError: Expected identifier, lbracket, or lbrace",
		"a b":                  "SyntaxError: Unexpected token at the end of the expression: tUnquotedIdentifier",
		"{{ a }}":              "SyntaxError: Expected tQuotedIdentifier or tUnquotedIdentifier",
		"a[":                   "SyntaxError: Expected tStar, received: tEOF",
		"a['x']":               "SyntaxError: Expected tStar, received: tStringLiteral",
		"a[1":                  "SyntaxError: Expected tRbracket, received: tEOF",
		"a[1:2:3:4]":           "SyntaxError: Expected tColon or tNumber, received: tColon",
		"[a":                   "SyntaxError: Expected tComma, received: tEOF",
		"{a: b":                "SyntaxError: Expected tComma, received: tEOF",
		"{a b}":                "SyntaxError: Expected tColon, received: tUnquotedIdentifier",
		"f(a":                  "SyntaxError: Expected tRparen, received: tEOF",
		"\"f\"(a)":             "SyntaxError: Can't have quoted identifier as function name.",
		"a.b(c)(d)":            "SyntaxError: Invalid node as function name.",
		`'a\\'`:                "SyntaxError: Unclosed delimiter: '",
		"'open":                "SyntaxError: Unclosed delimiter: '",
		"`open":                "SyntaxError: Unclosed delimiter: `",
		"`{`":                  "unexpected end of JSON input",
		"a = b":                "SyntaxError: Unknown char: '='",
		"a # b":                "SyntaxError: Unknown char: '#'",
		"a ==":                 "SyntaxError: Incomplete expression",
		"a ||":                 "SyntaxError: Incomplete expression",
		"(a":                   "SyntaxError: Expected tRparen, received: tEOF",
		"&a":                   "SyntaxError: Invalid token: tExpref",
		"[&a]":                 "SyntaxError: Invalid token: tExpref",
		"-":                    "SyntaxError: - is not a number",
		"99999999999999999999": "SyntaxError: 99999999999999999999 is not a number",
		"foo.1":                "SyntaxError: Expected identifier, lbracket, or lbrace",
		"a[*]b":                "SyntaxError: Unexpected token at the end of the expression: tUnquotedIdentifier",
	} {
		_, err := Compile(expression)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("%q: %v, want %s", expression, err, want)
		} else if lines := strings.Split(syntax.Highlight(), "\n"); len(lines) != 2 {
			t.Errorf("%q: %q", expression, lines)
		}
	}
}

// Nesting is rejected before it can exhaust the stack.
func TestDepth(t *testing.T) {
	n := 100_000
	for _, expression := range []string{
		strings.Repeat("(", n) + "a" + strings.Repeat(")", n), strings.Repeat("a.", n) + "a", strings.Repeat("[", n), strings.Repeat("!", n) + "a", strings.Repeat("a || ", n) + "a",
		strings.Repeat("abs(", n), "a" + strings.Repeat("[]", n), "a" + strings.Repeat("[0]", n), strings.Repeat("[?", n), "`" + strings.Repeat("[", n) + strings.Repeat("]", n) + "`",
		"a" + strings.Repeat(" | a", n),
	} {
		if _, err := Compile(expression); err == nil {
			t.Errorf("%.20s… is compiled", expression)
		}
	}
}

type lazy struct {
	fields map[string]any
	asked  []string
	err    error
}

func (r *lazy) Field(name string) (any, bool, error) {
	r.asked = append(r.asked, name)
	if r.err != nil {
		return nil, false, r.err
	}
	v, ok := r.fields[name]
	return v, ok, nil
}

func (r *lazy) Value() (any, error) {
	r.asked = append(r.asked, "*")
	return r.fields, r.err
}

// Only the names in an expression are loaded, and a failure to load is not a missing key.
func TestRoot(t *testing.T) {
	root := &lazy{fields: map[string]any{"a": map[string]any{"b": "x"}, "c": "y"}}
	for expression, want := range map[string]string{
		"a.b": "a", "a.b || c": "a", "missing || c": "missing c", "@": "*", "@.a.b": "a", "keys(@)": "*", "*": "*", "[@]": "*", "@ == c": "* c",
		"@ | a": "a", "'literal'": "", "length([c, a.b])": "c a", "@[0]": "", "map(&b, [a])": "a",
	} {
		root.asked = nil
		if _, err := MustCompile(expression).Search(nil, root); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if got := strings.Join(root.asked, " "); got != want {
			t.Errorf("%s loads %q, want %q", expression, got, want)
		}
	}
	root.err = errors.New("the ConfigMap is gone")
	for _, expression := range []string{"a.b", "a || 'x'", "length(a)", "a[]", "@", "a == 'x'", "[a]", "a | 'x'", "keys(@)", "*"} {
		if _, err := MustCompile(expression).Search(nil, root); !errors.Is(err, root.err) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestPaths(t *testing.T) {
	for expression, want := range map[string][]string{
		"request.object.spec.containers[].image": {"request.object.spec.containers"},
		"request.object.spec.[a, b.c][].d":       {"request.object.spec.a", "request.object.spec.b.c"},
		"a.b || c.d && !e":                       {"a.b", "c.d", "e"},
		"a | b | c":                              {"a.b.c"},
		"@":                                      {""},
		"@.a.b":                                  {"a.b"},
		"keys(@)":                                {""},
		"*.a":                                    {""},
		"length(a.b) == x":                       {"a.b", "x"},
		"a.b.length(@)":                          {"a.b"},
		"a.{k: b, l: c[0]}":                      {"a.b", "a.c"},
		"items[?metadata.name == 'x'].spec | [0]": {"items"},
		"sort_by(a, &b.c)":                        {"a"},
		"a.length('x')":                           {"a"},
		"'x'":                                     nil,
		"a[b]":                                    nil,
	} {
		e, err := Compile(expression)
		if err != nil {
			if expression != "a[b]" {
				t.Error(expression, err)
			}
			continue
		}
		var got []string
		for _, p := range e.Paths() {
			got = append(got, strings.Join(p, "."))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s reads %q, want %q", expression, got, want)
		}
	}
	if got := MustCompile("b.x || a.y || b.z").Roots(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("roots %q", got)
	}
	if got := MustCompile("a || @").Roots(); !slices.Equal(got, []string{"*", "a"}) {
		t.Errorf("roots %q", got)
	}
}

// Numbers that are results are float64s; values that are passed through are neither copied nor rounded.
func TestNumbersAreFloats(t *testing.T) {
	input := map[string]any{"a": int64(1), "l": []any{"x", int64(2), map[string]any{"b": int64(9007199254740993)}}, "s": []any{"x"}}
	before := value.JSON(input)
	for expression, want := range map[string]any{
		"a": 1.0, "l[1]": 2.0, "l": []any{"x", 2.0, map[string]any{"b": int64(9007199254740993)}}, "[a, a]": []any{1.0, 1.0}, "not_null(a)": 1.0, "max([a])": 1.0, "sum([a, a])": 2.0, "sum([a])": 1.0,
		"to_array(a)": []any{1.0}, "add(a, a)": 2.0, "l[2]": map[string]any{"b": int64(9007199254740993)}, "s": []any{"x"}, "l[1:2]": []any{2.0}, "a || s": 1.0, "a == `1`": true, "a < `1.5`": true, "to_number(a)": 1.0,
		"to_string(l)": `["x",2,{"b":9007199254740992}]`,
	} {
		got, err := MustCompile(expression).Search(nil, input)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s gives %#v, %v, want %#v", expression, got, err, want)
		}
	}
	if value.JSON(input) != before || input["a"] != int64(1) {
		t.Error("the input was changed")
	}
}

// An expression that creates a large result from small data ends with the budget's error.
func TestBudget(t *testing.T) {
	many := make([]any, 1000)
	for i := range many {
		many[i] = strings.Repeat("a", 100)
	}
	for _, expression := range []string{
		"l" + strings.Repeat("[].[@, @][]", 7), "map(&length(to_string($)), l)", "l[?contains(to_string($), 'b')]", "join(to_string(l), l)", "replace_all(to_string(l), 'a', to_string(l))",
		"regex_replace_all('a', to_string(l), to_string(l))", "l[].split(to_string($), '')", "l[].base64_encode(to_string($))", "l[].reverse(to_string($))", "l[].parse_json(to_string($))", "l[].regex_match('(a|b)*c', to_string($))",
		"l[].parse_yaml(to_string($))", "l[].keys(`{\"a\": 1, \"b\": 2}`)[].keys(`{\"a\": 1}`)[].[@, @, @, @][].{a: @, b: @, c: @, d: @}.[a, b, c, d][].{a: @}[].values(@)",
	} {
		expression = strings.ReplaceAll(expression, "$", "`"+value.JSON(many)+"`")
		env := &Env{Meter: budget.New(context.Background(), 100_000, 1<<22)}
		if _, err := MustCompile(expression).Search(env, map[string]any{"l": many}); !errors.Is(err, budget.ErrExhausted) {
			t.Errorf("%.60s…: %v", expression, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	env := &Env{Meter: budget.New(ctx, budget.DefaultSteps, budget.DefaultBytes)}
	if _, err := MustCompile("l[*].[@, @][].[@, @][].length(@)").Search(env, map[string]any{"l": many}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the deadline: %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	large := strings.Repeat("a", 2<<20)
	for _, expression := range []string{"parse_yaml(@)", "x509_decode(@)", "regex_match(@, 'a')", "random(@)", "semver_compare(@, '1.0.0')", "random('(((a{100}){100}){100}){100}')", "random('((((((((((((((((a?)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+')"} {
		e, err := Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Search(exampleEnv(), large); err == nil {
			t.Errorf("%s digests %d bytes", expression, len(large))
		}
	}
	if v, err := MustCompile("add('1e999999999', '1')").Search(nil, nil); err == nil {
		t.Errorf("a quantity of a billion digits: %v", v)
	}
	if v, err := MustCompile("image_normalize(@)").Search(nil, large); err == nil || len(err.Error()) > 10_000 {
		t.Errorf("%v", v)
	}
	if _, err := MustCompile("abs(@)").Search(nil, large); err == nil || len(err.Error()) > 10_000 {
		t.Error("an error repeats the whole input")
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"a.b[*].c", "a[?b == `1`] | [0]", "{a: b, \"c\": [d, e]}", "f(&a, 'x')", "!a || b && c", "a[1:2:-1]", "@.*[]", "'\\'' == `{\"a\": 1}`", "sort_by(@, &a)[0]", "x.y(@)"} {
		f.Add(s, pods)
	}
	f.Fuzz(func(t *testing.T, src, input string) {
		e, err := Compile(src)
		if err != nil {
			return
		}
		e.Roots()
		v, err := value.DecodeJSON([]byte(input))
		if err != nil {
			return
		}
		before := value.JSON(v)
		env := exampleEnv()
		env.Meter = budget.New(context.Background(), 100_000, 1<<22)
		got, err := e.Search(env, v)
		if err == nil {
			value.JSON(got)
		}
		if value.JSON(v) != before {
			t.Errorf("%s changes its input", src)
		}
	})
}
