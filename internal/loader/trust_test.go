package loader_test

import (
	"context"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

// of returns a scope of a request whose object has data.
func of(t *testing.T, out *outside, data map[string]any, entries string) *scope.Scope {
	t.Helper()
	chain, diags := compileYAML(t, "", entries)
	if diags != "" {
		t.Fatal(diags)
	}
	env := &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes), World: out.world()}
	req := &policy.Request{Review: policy.Review{Operation: policy.Create, Namespace: "d", Object: value.Of(map[string]any{"data": data})}}
	return chain.Apply(scope.New(&policy.Call{Env: env, Request: req, Program: &policy.Program{Name: "p"}, Rule: &policy.Rule{}}))
}

// TestT5URLPath tests that a variable in a urlPath is one segment or one value of the query, and that a variable that is the whole
// urlPath must come from the author.
func TestT5URLPath(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		x    any
		want string // the request, or an error
	}{
		"a segment":                   {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}", "web", "GET /api/v1/namespaces/a/pods/web null"},
		"a part of a segment":         {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}-0", "web", "GET /api/v1/namespaces/a/pods/web-0 null"},
		"a number":                    {"/api/v1/namespaces/a/pods/web-{{ request.object.data.x }}", 1000000.0, "GET /api/v1/namespaces/a/pods/web-1000000 null"},
		"several segments":            {"/api/v1/namespaces/{{ request.object.data.x }}/configmaps", "a/secrets/b", "error"},
		"another subresource":         {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}", "web/log", "error"},
		"an escaped slash":            {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}", "web%2Flog", "error"},
		"a query":                     {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}", "web?limit=1", "error"},
		"nothing":                     {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}", "", "error"},
		"a map":                       {"/api/v1/namespaces/a/pods/{{ request.object.data.x }}", map[string]any{"a": 1.0}, "error"},
		"a value of the query":        {"/api/v1/pods?labelSelector=app={{ request.object.data.x }}", "a", "GET /api/v1/pods?labelSelector=app%3Da null"},
		"a parameter in a value":      {"/api/v1/pods?labelSelector={{ request.object.data.x }}", "a=b&limit=1", "GET /api/v1/pods?labelSelector=a%3Db%26limit%3D1 null"},
		"an escape in a value":        {"/api/v1/pods?labelSelector={{ request.object.data.x }}", "a%3Db", "GET /api/v1/pods?labelSelector=a%253Db null"},
		"a whole path of the author":  {"{{ path }}", "", "GET /api/v1/namespaces/a/pods null"},
		"a whole path of data":        {"{{ request.object.data.x }}", "/api/v1/secrets", "error"},
		"a whole path, data in it":    {"{{ mixed }}", "a/secrets/b?x=", "error"},
		"several segments of authors": {"/api/v1/{{ rest }}", "", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			out := &outside{}
			s := of(t, out, map[string]any{"x": c.x}, `
- {name: path, variable: {value: /api/v1/namespaces/a/pods}}
- {name: mixed, variable: {value: "/api/v1/namespaces/{{ request.object.data.x }}/pods"}}
- {name: rest, variable: {value: namespaces/a/pods}}
- {name: v, apiCall: {urlPath: "`+c.path+`"}}`)
			got := lookup(s, "v")
			asked := strings.Join(out.asked, "; ")
			if c.want == "error" && (asked != "" || !strings.HasPrefix(got, "error: ")) || c.want != "error" && asked != c.want {
				t.Errorf("asked %q, got %s, want %s", asked, got, c.want)
			}
		})
	}
}

// TestT6QueriesAreTheAuthors tests that data in the text of a jmesPath are values and names, never syntax.
func TestT6QueriesAreTheAuthors(t *testing.T) {
	for name, c := range map[string]struct{ entry, x, want string }{
		"a text":                        {`variable: {jmesPath: "to_upper('{{ request.object.data.x }}')"}`, "it's", `"IT'S"`},
		"a query in a text":             {`variable: {jmesPath: "to_upper('{{ request.object.data.x }}')"}`, "') || secret.data || to_upper('", `"') || SECRET.DATA || TO_UPPER('"`},
		"a name":                        {`variable: {value: {a/b: 1}, jmesPath: "\"{{ request.object.data.x }}\""}`, "a/b", `1`},
		"a name without quotes":         {`variable: {value: {a: 1}, jmesPath: "{{ request.object.data.x }}"}`, "a", `1`},
		"a variable without quotes":     {`variable: {jmesPath: "{{ request.object.data.x }}"}`, "secret", `error`},
		"a path without quotes":         {`variable: {value: {a: {b: 1}}, jmesPath: "{{ request.object.data.x }}"}`, "a.b", `error`},
		"a function":                    {`variable: {value: [1, 2], jmesPath: "{{ request.object.data.x }}(@)"}`, "length", `error`},
		"a query over an answer":        {`apiCall: {urlPath: /api/v1/pods, jmesPath: "items[?name == '{{ request.object.data.x }}'] | length(@)"}`, "' || 'a' == 'a", `0`},
		"a path of the author":          {`variable: {jmesPath: "{{ place }}"}`, "", `"s"`},
		"a JSON literal":                {"variable: {jmesPath: \"`{\\\"k\\\": \\\"{{ request.object.data.x }}\\\"}`\"}", "\"}` || secret || `{\"a\": \"b", "{\"k\":\"\\\"}` || secret || `{\\\"a\\\": \\\"b\"}"},
		"a value of a JSON literal":     {"variable: {jmesPath: \"`{{ request.object.data.x }}`\"}", `[1]`, `[1]`},
		"no value of a JSON literal":    {"variable: {jmesPath: \"`[{{ request.object.data.x }}]`\"}", `1, 2`, `error`},
		"an empty index":                {`variable: {value: {l: [[1], [2]]}, jmesPath: "l[{{ request.object.data.x }}]"}`, "", `error`},
		"an index":                      {`variable: {value: {l: [[1], [2]]}, jmesPath: "l[{{ request.object.data.x }}]"}`, "1", `[2]`},
		"a text that holds a variable":  {`variable: {value: "a {{ request.object.data.x }}"}`, "{{ secret.data }}", `"a {{ secret.data }}"`},
		"a default that holds variable": {`variable: {jmesPath: nope, default: "a {{ request.object.data.x }}"}`, "{{ secret.data }}", `"a {{ secret.data }}"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := of(t, &outside{}, map[string]any{"x": c.x}, `
- {name: secret, variable: {value: {data: s}}}
- {name: place, variable: {value: secret.data}}
- name: v
  `+c.entry)
			got := lookup(s, "v")
			if c.want == "error" && strings.HasPrefix(got, "error: ") {
				return
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
