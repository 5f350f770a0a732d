package template

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/value"
)

// data is a root with known fields; broken ones cannot be loaded.
type data struct {
	fields map[string]any
	broken map[string]error
}

func (d data) Field(name string) (any, bool, error) {
	if err := d.broken[name]; err != nil {
		return nil, false, err
	}
	v, ok := d.fields[name]
	return v, ok, nil
}

// Authored reports that own was written by the author.
func (d data) Authored(names []string) bool {
	for _, n := range names {
		if n != "own" {
			return false
		}
	}
	return true
}

func (d data) Value() (any, error) {
	for _, err := range d.broken {
		return nil, err
	}
	return d.fields, nil
}

var errLoad = errors.New("failed to get configmap default/settings")

func testRoot(tb testing.TB) data {
	tb.Helper()
	v, err := value.DecodeJSON([]byte(`{
		"request": {"operation": "CREATE", "object": {
			"metadata": {"name": "web", "labels": {"app": "shop"}},
			"spec": {"replicas": 3, "ratio": 0.25, "big": 1000000, "ready": true, "nothing": null,
				"list": ["a", 1], "map": {"x": "<y>", "n": 2}, "containers": [{"name": "c1"}, {"name": "c2"}]},
			"data": {"inner": "name is {{ request.object.metadata.name }}", "plain": "{{x}}", "braces": "{{ a }} and }}",
				"self": "{{ request.object.data.self }}{{ request.object.data.self }}",
				"loop": "again {{ request.object.data.loop }}", "quote": "it's", "half": "{{ request", "open": "{ one }}"}}},
		"own": {"inner": "name is {{ request.object.metadata.name }}", "self": "{{ own.self }}{{ own.self }}", "loop": "again {{ own.loop }}"},
		"element": {"name": "c2"},
		"images": {"containers": {"c2": {"tag": "v1"}}},
		"one": 1, "path": "metadata", "key": "name"}`))
	if err != nil {
		tb.Fatal(err)
	}
	return data{fields: v.(map[string]any), broken: map[string]error{"settings": errLoad}}
}

func TestEval(t *testing.T) {
	for _, c := range []struct{ name, template, want string }{
		{"no variable", `{"a": ["b", 1, null]}`, `{"a": ["b", 1, null]}`},
		{"whole string is a string", `"{{ request.object.metadata.name }}"`, `"web"`},
		{"blank padding is free", `"{{request.object.metadata.name   }}"`, `"web"`},
		{"whole string keeps the type: number", `"{{ request.object.spec.replicas }}"`, `3`},
		{"whole string keeps the type: list", `"{{ request.object.spec.list }}"`, `["a", 1]`},
		{"whole string keeps the type: map", `"{{ request.object.spec.map }}"`, `{"n": 2, "x": "<y>"}`},
		{"whole string keeps the type: null", `"{{ request.object.spec.nothing }}"`, `null`},
		{"blanks around make it text", `" {{ request.object.spec.replicas }}"`, `" 3"`},
		{"text: number without exponent", `"n={{ request.object.spec.big }} {{ request.object.spec.ratio }}"`, `"n=1000000 0.25"`},
		{"text: bool and null", `"{{ request.object.spec.ready }}/{{ request.object.spec.nothing }}"`, `"true/null"`},
		{"text: list and map as JSON", `"{{ request.object.spec.list }}{{ request.object.spec.map }}"`, `"[\"a\",1]{\"n\":2,\"x\":\"<y>\"}"`},
		{"nested, innermost first", `"{{ images.containers.\"{{element.name}}\".tag }}"`, `"v1"`},
		{"nested keeps the type", `"{{ request.object.{{path}} }}"`, `{"labels": {"app": "shop"}, "name": "web"}`},
		{"nested thrice", `"{{ request.object.{{ path }}.{{ {{ 'key' }} }} }}"`, `"web"`},
		{"nested within text", `"tag {{ images.containers.\"{{element.name}}\".tag }}!"`, `"tag v1!"`},
		{"quoting is textual", `"{{ to_upper('{{ request.object.metadata.name }}') }}"`, `"WEB"`},
		{"whole value is not examined again", `"{{ request.object.data.inner }}"`, `"name is {{ request.object.metadata.name }}"`},
		{"data in text are not evaluated", `"- {{ request.object.data.inner }}"`, `"- name is {{ request.object.metadata.name }}"`},
		{"what the author wrote is", `"- {{ own.inner }}"`, `"- name is web"`},
		{"the author's next to data", `"{{ own.inner }}, {{ request.object.data.inner }}"`, `"name is web, name is {{ request.object.metadata.name }}"`},
		{"data between braces of the author", `"{{{ request.object.data.open }}"`, `"{{ one }}"`},
		{"quotes in data", `"{{ to_upper('{{ request.object.data.quote }}') }}"`, `"IT'S"`},
		{"shallow leaves braces alone", `"- {{- request.object.data.inner }}"`, `"- name is {{ request.object.metadata.name }}"`},
		{"shallow as the whole string", `"{{- request.object.data.inner }}"`, `"name is {{ request.object.metadata.name }}"`},
		{"shallow next to deep", `"{{- own.inner }} {{ own.inner }}"`, `"name is {{ request.object.metadata.name }} name is web"`},
		{"shallow inside a variable", `"{{ length('{{- request.object.data.braces }}') }}"`, `14`},
		{"half a variable in data", `"{{ request.object.data.half }}|"`, `"{{ request|"`},
		{"escape", `"\\{{ request.object }}"`, `"{{ request.object }}"`},
		{"escape next to a variable", `"\\{{ x }} {{ one }}"`, `"{{ x }} 1"`},
		{"escape without end stays", `"\\{{ x"`, `"\\{{ x"`},
		{"no variable without end", `"{{ x }"`, `"{{ x }"`},
		{"multi-select hash", `"{{ {a: one, b: element.name} }}"`, `{"a": 1, "b": "c2"}`},
		{"literal object", "\"{{ `{\\\"a\\\": 1}` }}\"", `{"a": 1}`},
		{"keys", `{"{{ path }}-{{ key }}": "x", "b": "{{ one }}"}`, `{"b": 1, "metadata-name": "x"}`},
		{"key of a number", `{"{{ one }}": true}`, `{"1": true}`},
		{"a key may take the name of another", `{"{{ key }}": 1, "a": 2}`, `{"a": 2, "name": 1}`},
		{"in lists", `["{{ one }}", "b", ["{{ key }}"]]`, `[1, "b", ["name"]]`},
		{"@ is the value at the same place", `{"metadata": {"name": "{{ @ }}-copy"}}`, `{"metadata": {"name": "web-copy"}}`},
		{"@ below an anchor and an index", `{"spec": {"(containers)": [{"=(name)": "x-{{@}}"}]}}`, `{"spec": {"(containers)": [{"=(name)": "x-c1"}]}}`},
		{"@ inside of an expression", `{"metadata": {"labels": {"app": "{{ to_upper('{{ @ }}') }}"}}}`, `{"metadata": {"labels": {"app": "SHOP"}}}`},
		{"@ as a current node stays JMESPath", `"{{ request.object.spec.list | length(@) }}"`, `2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl := Compile(decode(t, c.template), Options{})
			got, err := tmpl.Eval(nil, testRoot(t))
			if err != nil {
				t.Fatal(err)
			}
			if want := decode(t, c.want); !value.Equal(got, want) {
				t.Errorf("got %s, want %s", value.JSON(got), value.JSON(want))
			}
		})
	}
}

func decode(tb testing.TB, s string) any {
	tb.Helper()
	v, err := value.DecodeJSON([]byte(s))
	if err != nil {
		tb.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, template, want string }{
		{"missing key", `"{{ request.object.spec.nope }}"`,
			`failed to resolve request.object.spec.nope at path : JMESPath query failed: Unknown key "nope" in path`},
		{"path in maps and lists", `{"spec": {"containers": [{}, {"image": "x {{element.image}}"}]}}`,
			`failed to resolve element.image at path /spec/containers/1/image: JMESPath query failed: Unknown key "image" in path`},
		{"list key of a condition", `["{{ request.object.spec.nope }}"]`,
			`failed to resolve request.object.spec.nope at path /0: JMESPath query failed: Unknown key "nope" in path`},
		{"unknown name", `"{{ serviceAccountName }}"`,
			`failed to resolve serviceAccountName at path : JMESPath query failed: Unknown key "serviceAccountName" in path`},
		{"a context entry that does not load", `"{{ settings.data.x }}"`,
			`failed to resolve settings.data.x at path : failed to get configmap default/settings`},
		{"empty query", `"{{ }}"`, `failed to resolve  at path : invalid query (nil)`},
		{"@ of a field that is not there", `{"metadata": {"annotations": "{{@}}"}}`,
			`failed to resolve request.object.metadata.annotations at path /metadata/annotations: JMESPath query failed: Unknown key "annotations" in path`},
		{"shallow with a number inside text", `"n {{- one }}"`,
			`failed to resolve one at path : the value of a {{- }} variable inside text must be a string`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Compile(decode(t, c.template), Options{}).Eval(nil, testRoot(t))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := Compile("{{ request.nope }}", Options{}).Eval(nil, testRoot(t))
	var unknown *jmespath.UnknownKeyError
	if !errors.As(err, &unknown) || unknown.Key != "nope" {
		t.Errorf("%v holds no UnknownKeyError", err)
	}
	if _, err = Compile("{{ settings.a }}", Options{}).Eval(nil, testRoot(t)); !errors.Is(err, errLoad) {
		t.Errorf("%v does not wrap the load error", err)
	}
	m := budget.New(t.Context(), 3, 1<<20)
	_, err = Compile([]any{"{{one}}", "{{one}}", "{{one}}", "{{one}}", "{{one}}"}, Options{}).Eval(&jmespath.Env{Meter: m}, testRoot(t))
	if !errors.Is(err, budget.ErrExhausted) {
		t.Errorf("%v: the step limit is passed", err)
	}
}

func TestPathPrefixAndPlace(t *testing.T) {
	_, err := Compile(map[string]any{"a": "{{ nope }}"}, Options{Path: "/validate/pattern"}).Eval(nil, testRoot(t))
	if want := `failed to resolve nope at path /validate/pattern/a: JMESPath query failed: Unknown key "nope" in path`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	got, err := Compile("{{ @ }}", Options{At: []any{"spec", "=(containers)", 1, "name"}}).Eval(nil, testRoot(t))
	if err != nil || got != "c2" {
		t.Errorf("@ at a given place: %v %v", got, err)
	}
}

// TestTargetGoesBeforeTheRequest tests mutate-existing, in which `@` reads the object that is changed.
func TestTargetGoesBeforeTheRequest(t *testing.T) {
	root := testRoot(t)
	root.fields["target"] = map[string]any{"metadata": map[string]any{"name": "existing"}}
	tmpl := Compile(map[string]any{"metadata": map[string]any{"name": "{{@}}", "uid": "{{@}}"}}, Options{})
	_, err := tmpl.Eval(nil, root)
	if want := `failed to resolve target.metadata.uid at path /metadata/uid: JMESPath query failed: Unknown key "uid" in path`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	got, err := Compile(map[string]any{"metadata": map[string]any{"name": "{{@}}"}}, Options{}).Eval(nil, root)
	if err != nil || value.JSON(got) != `{"metadata":{"name":"existing"}}` {
		t.Errorf("got %v %v", got, err)
	}
}

// TestSelfReferenceEnds tests time and memory: the texts of the author below would expand for ever.
func TestSelfReferenceEnds(t *testing.T) {
	for _, source := range []string{"x {{ own.self }}", "x {{ own.loop }}"} {
		_, err := Compile(source, Options{}).Eval(nil, testRoot(t))
		if err == nil || !strings.Contains(err.Error(), "do not come to an end") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestMalformedExpressions(t *testing.T) {
	tmpl := Compile(map[string]any{"ok": "{{ one }}", "bad": []any{"{{ a[ }}"}}, Options{Path: "/p"})
	diags := tmpl.Diags()
	if len(diags) != 1 || diags[0].Path != "/p/bad/0" || !strings.Contains(diags[0].Summary, "incorrect query a[: ") {
		t.Errorf("diagnostics: %v", diags)
	}
	if tmpl.Err() == nil {
		t.Error("Err is nil")
	}
	if _, err := tmpl.Eval(nil, testRoot(t)); err == nil || !strings.HasPrefix(err.Error(), "failed to resolve a[ at path /p/bad/0: incorrect query a[: ") {
		t.Errorf("evaluation: %v", err)
	}
}

func TestRoots(t *testing.T) {
	for source, want := range map[string]string{
		"plain":                               "",
		"{{ request.object.a }}":              "request",
		"{{ x.a }} {{ element.b || y }}":      "element x y",
		`{{ images."{{element.name}}".tag }}`: "element images",
		`{{ {{ a }} }}`:                       "a x",
		`{{ [{{ a }} }}`:                      "* a",
		`{{ to_upper('{{ @ }}') }}`:           "request target",
		`{{ lookup(m, element.k) }}{{ m }}`:   "element m",
	} {
		if got := strings.Join(Compile(source, Options{}).Roots(), " "); got != want {
			t.Errorf("%s reads %q, want %q", source, got, want)
		}
	}
}

func TestSharesWhatHasNoVariables(t *testing.T) {
	static := map[string]any{"deep": []any{"x"}}
	source := map[string]any{"static": static, "name": "{{ key }}"}
	tmpl := Compile(source, Options{})
	got, err := tmpl.Eval(nil, testRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if source["name"] != "{{ key }}" {
		t.Error("the compiled value was changed")
	}
	got.(map[string]any)["static"].(map[string]any)["probe"] = true
	if static["probe"] != true {
		t.Error("the static part was copied")
	}
	if v, ok := Compile(static, Options{}).Static(); !ok || v.(map[string]any)["probe"] != true {
		t.Error("Static")
	}
	if _, ok := Compile(`\{{ x }}`, Options{}).Static(); ok {
		t.Error("a text with an escape is not static")
	}
}

func TestEvalString(t *testing.T) {
	if s, err := Compile("hello {{ key }}", Options{}).EvalString(nil, testRoot(t)); err != nil || s != "hello name" {
		t.Errorf("%q %v", s, err)
	}
	_, err := Compile("{{ one }}", Options{}).EvalString(nil, testRoot(t))
	var other *NotStringError
	if !errors.As(err, &other) {
		t.Errorf("%v is no NotStringError", err)
	}
}

func TestDepthIsRefused(t *testing.T) {
	var v any = "{{ one }}"
	for range budget.MaxDepth + 2 {
		v = []any{v}
	}
	tmpl := Compile(v, Options{})
	if tmpl.Err() == nil {
		t.Error("no diagnostic")
	}
	if _, err := tmpl.Eval(nil, testRoot(t)); !errors.Is(err, errTooDeep) {
		t.Errorf("evaluation: %v", err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := &cache{max: 4, maxSource: 10, entries: map[string]*cachedExpr{}}
	for round := range 3 {
		for i := range 20 {
			source := strings.Repeat("a", 1+i%8)
			if _, _, err := c.compile(source, jmespath.Quoting{}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.compile("keep", jmespath.Quoting{}); err != nil {
				t.Fatal(err)
			}
			if len(c.entries) > 4 || len(c.ring) > 4 {
				t.Fatalf("round %d: %d entries", round, len(c.entries))
			}
		}
	}
	if c.entries["keep"] == nil {
		t.Error("an entry in constant use was dropped")
	}
	if _, _, err := c.compile(strings.Repeat("b", 11), jmespath.Quoting{}); err != nil || c.entries[strings.Repeat("b", 11)] != nil {
		t.Error("a long expression is compiled but not kept")
	}
}

// TestManyGoroutines is for the race detector: templates and the cache of late expressions are shared.
func TestManyGoroutines(t *testing.T) {
	tmpl := Compile(`{{ images.containers."{{element.name}}".tag }}`, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if v, err := tmpl.Eval(nil, testRoot(t)); err != nil || v != "v1" {
					t.Error(v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{ one }}", `a {{ images."{{ element.name }}" }}`, `\{{ x }} {{- key }}`, "{{{{ one }}}}", "{{ {a: one} }}", "{{ @ }}", "}}{{"} {
		f.Add(s)
	}
	root := testRoot(f)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 200 {
			t.Skip()
		}
		tmpl := Compile(map[string]any{s: []any{s}}, Options{})
		env := &jmespath.Env{Meter: budget.New(t.Context(), 100_000, 1<<20)}
		v, err := tmpl.Eval(env, root)
		if err == nil && !strings.Contains(s, "{{") && !value.Equal(v, map[string]any{s: []any{s}}) {
			t.Errorf("%q became %s", s, value.JSON(v))
		}
	})
}

// FuzzFrozen tests that any value is unchanged in a text and in an expression, and adds nothing to a document.
func FuzzFrozen(f *testing.F) {
	for _, s := range []string{"{{ one }}", "'", `\\`, "\\'", "') || one || ('", `" || one || "`, "{{", "}}", "\n- b", "`", `"}}{{ x }}`, "\x00", "null", "", "- ", "\\{{ one }}"} {
		f.Add(s)
	}
	const (
		plain  = "{ {{ x }} }"
		raw    = "{{ join('', ['{{ x }}']) }}"
		member = `{{ all."{{ x }}" }}`
		json   = "{{ `[\"{{ x }}\"]` | [0] }}"
	)
	templates := map[string]*Template{}
	for _, s := range []string{plain, raw, member, json} {
		templates[s] = Compile(s, Options{})
	}
	doc, err := CompileDocument("- a: \"{{ x }}\"\n  b: {{ x }}\n  c: 1-{{ x }}\n- [\"{{ x }}-1\"]", Document{Decode: decodeDocument})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, x string) {
		if len(x) > 300 || !utf8.ValidString(x) {
			t.Skip()
		}
		root := data{fields: map[string]any{"x": x, "one": 1.0, "all": map[string]any{x: x}}}
		for source, tmpl := range templates {
			want := x
			if source == plain {
				want = "{ " + x + " }"
			}
			if got, err := tmpl.Eval(nil, root); err != nil || got != want {
				t.Errorf("%s with %q is %#v, %v", source, x, got, err)
			}
		}
		got, err := doc.Eval(nil, root)
		want := []any{map[string]any{"a": x, "b": x, "c": "1-" + x}, []any{x + "-1"}}
		if err != nil || !value.Equal(got, want) {
			t.Errorf("the document with %q is %s, %v", x, value.JSON(got), err)
		}
	})
}

func decodeDocument(text string) (any, error) {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return value.DecodeJSON(raw)
}

// FuzzDocument tests that a text with variables is a document or an error, and evaluates to a value or an error.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{"- {{ one }}", "a: \"{{ x }}{{ one }}\"", `[{"op":"add","value":{{ x }} }]`, "{{ x }}", "- |\n  {{ x }}\n", "- &a {{ x }}\n- *a", "\\{{ x }}", "? {{x}}\n: {{ {{x}} }}", "- +{{ one }}\n- 0x{{ one }}"} {
		f.Add(s)
	}
	root := testRoot(f)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 300 {
			t.Skip()
		}
		doc, err := CompileDocument(s, Document{Decode: decodeDocument, Scalar: func(at []any) bool { return len(at) == 1 }})
		if err != nil {
			return
		}
		env := &jmespath.Env{Meter: budget.New(t.Context(), 100_000, 1<<20)}
		v, err := doc.Eval(env, root)
		if err == nil && !strings.Contains(s, "VAR") && strings.Contains(value.JSON(v), "VAR") {
			t.Errorf("%q leaves a mark in %s", s, value.JSON(v))
		}
	})
}

func BenchmarkEval(b *testing.B) {
	root := testRoot(b)
	for _, source := range []string{
		"no variable", "{{ request.object.metadata.name }}", "{{ request.object.spec.containers[].name }}", "a {{ request.object.metadata.name }} b",
		`{{ images.containers."{{element.name}}".tag }}`,
	} {
		tmpl := Compile(source, Options{})
		b.Run(source, func(b *testing.B) {
			b.ReportAllocs()
			env := &jmespath.Env{Meter: budget.New(b.Context(), 1<<62, 1<<62)}
			for b.Loop() {
				if _, err := tmpl.Eval(env, root); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
