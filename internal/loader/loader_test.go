package loader_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// objects is a cluster that holds ConfigMaps by namespace/name and records reads.
type objects struct {
	configMaps map[string]map[string]any
	asked      []string
}

func (o *objects) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	o.asked = append(o.asked, r.APIVersion+" "+r.Kind.Kind+" "+r.Namespace+"/"+r.Name)
	if cm, ok := o.configMaps[r.Namespace+"/"+r.Name]; ok {
		return cm, nil
	}
	return nil, errors.New(`configmaps "` + r.Name + `" not found`)
}

func compileYAML(t *testing.T, policyNamespace, text string) (*loader.Chain, string) {
	t.Helper()
	var entries []kyvernov1.ContextEntry
	if err := yaml.UnmarshalStrict([]byte(text), &entries); err != nil {
		t.Fatal(err)
	}
	chain, diags := loader.Compile(entries, policyNamespace, "context", nil)
	return chain, diags.Error()
}

func newScope(env *evalenv.Env) *scope.Scope {
	req := &policy.Request{Review: policy.Review{Operation: policy.Create, Namespace: "d", Object: value.Of(map[string]any{
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"num": 3.0, "text": "str", "null": nil},
	})}}
	return scope.New(&policy.Call{Env: env, Request: req, Program: &policy.Program{}, Rule: &policy.Rule{}})
}

// TestVariables tests the documented results and errors of `variable` entries; v is the entry under test.
func TestVariables(t *testing.T) {
	for name, c := range map[string]struct{ entries, want string }{
		"a value":                               {`[{name: v, variable: {value: {a: [1, x]}}}]`, `{"a":[1,"x"]}`},
		"a value with variables":                {`[{name: v, variable: {value: ["{{ request.object.metadata.name }}", "n-{{ request.object.spec.num }}"]}}]`, `["web","n-3"]`},
		"a query over all variables":            {`[{name: v, variable: {jmesPath: request.object.metadata.labels.a}}]`, `"b"`},
		"a query over the value":                {`[{name: v, variable: {value: {a: [1, 2]}, jmesPath: "a[1]"}}]`, `2`},
		"a query with variables":                {`[{name: v, variable: {value: {str: 5}, jmesPath: "{{ request.object.spec.text }}"}}]`, `5`},
		"a query with variables in it":          {`[{name: v, variable: {value: {web-x: 5}, jmesPath: "\"{{ request.object.metadata.name }}-x\""}}]`, `5`},
		"the default for a missing key":         {`[{name: v, variable: {jmesPath: request.object.spec.nope, default: "{{ request.namespace }}"}}]`, `"d"`},
		"the default for null":                  {`[{name: v, variable: {jmesPath: request.object.spec.null, default: {x: 1}}}]`, `{"x":1}`},
		"the default for a failure":             {`[{name: v, variable: {jmesPath: "length(request.object.spec.num)", default: 7}}]`, `7`},
		"no default is needed":                  {`[{name: v, variable: {jmesPath: request.object.spec.num, default: 7}}]`, `3`},
		"earlier entries are seen":              {`[{name: one, variable: {value: 1}}, {name: v, variable: {jmesPath: one}}]`, `1`},
		"an entry over an earlier one":          {`[{name: v, variable: {value: one}}, {name: v, variable: {jmesPath: v}}]`, `"one"`},
		"a later entry of the name wins":        {`[{name: v, variable: {value: 1}}, {name: v, variable: {value: 2}}]`, `2`},
		"later entries do not change earlier":   {`[{name: foo, variable: {value: foo}}, {name: v, variable: {jmesPath: foo}}, {name: foo, variable: {value: baz}}]`, `"foo"`},
		"later entries are not seen":            {`[{name: v, variable: {jmesPath: later}}, {name: later, variable: {value: 1}}]`, `error: failed to apply jmespath later to variable <nil>: JMESPath query failed: Unknown key "later" in path`},
		"an entry that is not used":             {`[{name: bad, variable: {jmesPath: nope}}, {name: v, variable: {value: 1}}]`, `1`},
		"a missing key":                         {`[{name: v, variable: {jmesPath: nope}}]`, `error: failed to apply jmespath nope to variable <nil>: JMESPath query failed: Unknown key "nope" in path`},
		"a missing key of a value":              {`[{name: v, variable: {value: str, jmesPath: "length(nope)"}}]`, `error: failed to apply jmespath length(nope) to variable str: JMESPath query failed: Invalid type for: <nil>, expected: []jmespath.JpType{"string", "array", "object"}`},
		"null":                                  {`[{name: v, variable: {jmesPath: request.object.spec.null}}]`, `error: failed to add context entry for variable v since it evaluated to nil`},
		"a query that is no text":               {`[{name: v, variable: {value: 1, jmesPath: "{{ request.object.metadata.labels }}"}}]`, `error: jmespath value must be a string v {{ request.object.metadata.labels }}: <nil>`},
		"an unresolved variable":                {`[{name: v, variable: {value: "{{ request.object.spec.nope }}"}}]`, `error: failed to substitute variables in context entry v: failed to resolve request.object.spec.nope at path : JMESPath query failed: Unknown key "nope" in path`},
		"an unresolved variable of the query":   {`[{name: v, variable: {jmesPath: "{{ nope }}"}}]`, `error: failed to substitute variables in context entry v: failed to resolve nope at path : JMESPath query failed: Unknown key "nope" in path`},
		"an unresolved variable of the default": {`[{name: v, variable: {jmesPath: nope, default: "{{ nope2 }}"}}]`, `error: failed to substitute variables in context entry v: failed to resolve nope2 at path : JMESPath query failed: Unknown key "nope2" in path`},
		"a query that variables make malformed": {`[{name: v, variable: {value: 1, jmesPath: "{{ request.object.spec.text }}["}}]`, `error: failed to apply jmespath str[ to variable 1: incorrect query str[: SyntaxError: Expected tStar, received: tEOF`},
		"a name that nobody defines":            {`[]`, `not found`},
	} {
		chain, diags := compileYAML(t, "", c.entries)
		if diags != "" {
			t.Errorf("%s: %s", name, diags)
		}
		env := &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}
		if got := lookup(chain.Apply(newScope(env)), "v"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func lookup(s *scope.Scope, name string) string {
	v, ok, err := s.Field(name)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !ok:
		return "not found"
	}
	return value.JSON(v)
}

// TestConfigMap tests that a ConfigMap is read once, at its first use, and only within the policy's reach.
func TestConfigMap(t *testing.T) {
	cluster := &objects{configMaps: map[string]map[string]any{
		"default/x": {"data": map[string]any{"json": `["a"]`}, "metadata": map[string]any{"name": "x"}},
		"d/empty":   {"metadata": map[string]any{"name": "empty"}},
	}}
	env := &evalenv.Env{World: world.World{Objects: cluster.Get}}
	for _, c := range []struct{ policyNamespace, entries, want string }{
		{"", `[{name: v, configMap: {name: x}}]`, `{"data":{"json":"[\"a\"]"},"metadata":{"name":"x"}}`},
		{"", `[{name: v, configMap: {name: "{{ request.object.spec.text }}", namespace: "{{ request.namespace }}"}}]`,
			`error: failed to retrieve config map for context entry v: failed to get configmap d/str : configmaps "str" not found`},
		{"d", `[{name: v, configMap: {name: empty}}]`, `{"data":{},"metadata":{"name":"empty"}}`},
		{"d", `[{name: v, configMap: {name: empty, namespace: "{{ request.object.metadata.name }}"}}]`,
			`error: context entry v: configMap namespace "web" is different from policy namespace "d"`},
	} {
		chain, diags := compileYAML(t, c.policyNamespace, c.entries)
		if diags != "" {
			t.Error(diags)
		}
		cluster.asked = nil
		s := chain.Apply(newScope(env))
		if len(cluster.asked) > 0 {
			t.Errorf("%s: read before it was used", c.entries)
		}
		got := lookup(s, "v")
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.entries, got, c.want)
		}
		if again := lookup(s, "v"); again != got || len(cluster.asked) > 1 {
			t.Errorf("%s: %d reads, the second gave %s", c.entries, len(cluster.asked), again)
		}
	}
}

// TestUnavailable tests that data that the world does not offer is an error that differs from a missing object, never an
// empty result.
func TestUnavailable(t *testing.T) {
	chain, _ := compileYAML(t, "", `[{name: v, configMap: {name: x}}]`)
	_, _, err := chain.Apply(newScope(&evalenv.Env{})).Field("v")
	if !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	const want = "failed to retrieve config map for context entry v: failed to get configmap default/x : configmaps are not available here"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestBudgetIsNotHidden tests that a default replaces a failed query, but not an evaluation that was stopped.
func TestBudgetIsNotHidden(t *testing.T) {
	chain, _ := compileYAML(t, "", `[{name: v, variable: {jmesPath: "request.object.metadata.*.to_string(@)", default: x}}]`)
	env := &evalenv.Env{Meter: budget.New(context.Background(), 1, budget.DefaultBytes)}
	if got := lookup(chain.Apply(newScope(env)), "v"); !strings.Contains(got, "budget") {
		t.Errorf("got %s", got)
	}
}

// TestReads tests that the variables that loading reads are known in advance, for scans and role resolution.
func TestReads(t *testing.T) {
	for entries, want := range map[string]policy.Needs{
		`[{name: v, variable: {jmesPath: request.userInfo.username}}]`:               {User: true},
		`[{name: v, variable: {value: "{{ request.clusterRoles }}"}}]`:               {User: true, Roles: true},
		`[{name: v, variable: {value: 1, jmesPath: userInfo}}]`:                      {},
		`[{name: v, variable: {jmesPath: a, default: "{{ request.oldObject.a }}"}}]`: {OldObject: true},
		`[{name: v, configMap: {name: "{{ request.operation }}"}}]`:                  {Lookups: true, Operation: true},
		`[{name: v, variable: {jmesPath: "{{ x }}"}}]`:                               {User: true, Roles: true, OldObject: true, Images: true, Operation: true},
		// Data stand in a text of a query and are no part of it.
		`[{name: v, variable: {jmesPath: "target.data.list != '{{ request.object.metadata.name }}'"}}]`: {},
		`[{name: v, variable: {jmesPath: "request.userInfo.groups[?@ == '{{ request.namespace }}']"}}]`: {User: true},
		`[{name: v, variable: {jmesPath: "request.{{ request.namespace }}"}}]`:                          {User: true, Roles: true, OldObject: true, Images: true, Operation: true},
		`[{name: v, variable: {jmesPath: "request.\"{{ request.namespace }}\""}}]`:                      {User: true, Roles: true, OldObject: true, Images: true, Operation: true},
		`[{name: v, variable: {jmesPath: "a == '{{ written }}'"}}]`:                                     {User: true, Roles: true, OldObject: true, Images: true, Operation: true},
		`[{name: v, apiCall: {urlPath: /x}}]`:                                                           {Lookups: true},
	} {
		chain, _ := compileYAML(t, "", entries)
		reads := chain.Reads()
		if reads.Needs != want {
			t.Errorf("%s: %+v, want %+v", entries, reads.Needs, want)
		}
	}
}

// TestLate: entries that read a name, through other entries too, are applied again where the name is defined.
func TestLate(t *testing.T) {
	chain, _ := compileYAML(t, "", `
- {name: a, variable: {value: 1}}
- {name: b, variable: {jmesPath: "target.x"}}
- {name: c, variable: {jmesPath: "join('{{ request.namespace }}', target.y)"}}
- {name: d, variable: {jmesPath: "add(a, b)"}}
- {name: b, variable: {value: 2}}
- {name: e, variable: {jmesPath: "a.target"}}
- {name: f, variable: {jmesPath: "a.target == '{{ request.namespace }}'"}}
`)
	if got := strings.Join(chain.Late("target").Names(), " "); got != "b c d b" {
		t.Errorf("got %s", got)
	}
	if late := chain.Late("element"); late != nil {
		t.Errorf("got %v", late.Names())
	}
}

// TestEveryLoaderIsDocumented checks that each Loader has documentation, and runs the examples. Together they have every field.
func TestEveryLoaderIsDocumented(t *testing.T) {
	for _, l := range loader.Loaders() {
		if !strings.HasSuffix(l.Doc, ".") || len(l.Doc) < 20 {
			t.Errorf("%s: the documentation is no sentence: %q", l.Field, l.Doc)
		}
		shown := ""
		for _, example := range l.Examples {
			shown += example.YAML
			var e kyvernov1.ContextEntry
			if err := yaml.UnmarshalStrict([]byte(example.YAML), &e); err != nil {
				t.Errorf("%s: the example is no context entry: %v", l.Field, err)
				continue
			}
			if !l.Owns(&e) {
				t.Errorf("%s: the example does not use the field", l.Field)
			}
			_, diags := loader.Compile([]kyvernov1.ContextEntry{e}, "", "context", nil)
			for _, d := range diags {
				t.Errorf("%s: %s", l.Field, fmt.Sprint(d))
			}
		}
		entry := reflect.TypeFor[kyvernov1.ContextEntry]()
		for i := range entry.NumField() {
			if f := entry.Field(i); jsonName(f) == l.Field {
				for _, name := range fieldsOf(f.Type) {
					if !strings.Contains(shown, name+":") {
						t.Errorf("%s: no example has the field %s", l.Field, name)
					}
				}
			}
		}
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fieldsOf returns the names of all fields of a type of ours, and of those below it.
func fieldsOf(t reflect.Type) (out []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasSuffix(t.PkgPath(), "api/kyverno/v1") {
		return nil
	}
	for i := range t.NumField() {
		if name := jsonName(t.Field(i)); name != "" {
			out = append(out, name)
		}
		out = append(out, fieldsOf(t.Field(i).Type)...)
	}
	return out
}
