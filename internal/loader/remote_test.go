package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// outside is the world of these tests; it records requests.
type outside struct{ asked []string }

func (o *outside) record(format string, args ...any) {
	o.asked = append(o.asked, fmt.Sprintf(format, args...))
}

func (o *outside) world() world.World {
	return world.World{
		Objects: func(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
			o.record("configmap %s/%s", r.Namespace, r.Name)
			return map[string]any{"data": map[string]any{"k": "v"}}, nil
		},
		API: world.API(func(_ context.Context, r world.APIRequest) (any, error) {
			o.record("%s %s %s", r.Method, r.Path, value.JSON(r.Body))
			if r.Path.Name == "missing" {
				return nil, errors.New(`pods "missing" not found`)
			}
			return map[string]any{"items": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}, "null": nil}, nil
		}),
		Services: world.Services(func(_ context.Context, r world.ServiceRequest) (any, error) {
			o.record("%s %s %v %v %s", r.Method, r.URL, r.VariableHost, r.Headers, value.JSON(r.Body))
			if strings.Contains(r.URL, "/404") {
				return nil, errors.New("HTTP 404 Not Found: no")
			}
			return map[string]any{"allowed": true}, nil
		}),
		Globals: world.Globals(func(_ context.Context, name world.GlobalRequest) (any, error) {
			o.record("global %s", name)
			if name == "missing" {
				return nil, errors.New("there is no such entry")
			}
			return []any{map[string]any{"name": string(name)}}, nil
		}),
		Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
			o.record("image %s %v %v %v", r.Reference, r.Insecure, r.Providers, r.Secrets)
			return map[string]any{"registry": "ghcr.io"}, nil
		}},
	}
}

// TestRemote tests the documented results, requests and errors of the entries that send requests.
func TestRemote(t *testing.T) {
	for _, c := range []struct{ entry, want, asked string }{
		{`apiCall: {urlPath: "/api/v1/namespaces/{{ request.namespace }}/pods", jmesPath: "items[].name"}`,
			`["a","b"]`, "GET /api/v1/namespaces/d/pods null"},
		{`apiCall: {urlPath: /apis/authorization.k8s.io/v1/subjectaccessreviews, method: POST, data: [{key: kind, value: SubjectAccessReview}, {key: spec, value: {user: "{{ request.object.metadata.name }}"}}], jmesPath: "length(items)"}`,
			`2`, `POST /apis/authorization.k8s.io/v1/subjectaccessreviews {"kind":"SubjectAccessReview","spec":{"user":"web"}}`},
		{`apiCall: {urlPath: /api/v1/namespaces/a/pods/missing, jmesPath: items, default: [x]}`, `["x"]`, "GET /api/v1/namespaces/a/pods/missing null"},
		{`apiCall: {urlPath: /api/v1/pods, jmesPath: "null", default: "{{ request.namespace }}"}`, `"d"`, "GET /api/v1/pods null"},
		{`apiCall: {urlPath: /api/v1/pods, jmesPath: "{{ request.object.metadata.labels.a }}[", default: 1}`, `1`, "GET /api/v1/pods null"},
		{`apiCall: {urlPath: /api/v1/namespaces/a/pods/missing}`,
			`error: failed to fetch data for APICall: failed to GET resource with raw url: /api/v1/namespaces/a/pods/missing: pods "missing" not found`, "GET /api/v1/namespaces/a/pods/missing null"},
		{`apiCall: {urlPath: "/api/v1/namespaces/{{ request.object.spec.nope }}/pods"}`,
			`error: failed to substitute variables in context entry v: failed to resolve request.object.spec.nope at path : JMESPath query failed: Unknown key "nope" in path`, ""},
		{`apiCall: {urlPath: "/api/v1/namespaces/../{{ request.namespace }}"}`,
			`error: failed to fetch data for APICall: failed to GET resource with raw url: /api/v1/namespaces/../d: invalid API path "/api/v1/namespaces/../d": it has a dot segment`, ""},
		{`apiCall: {service: {url: "https://example.com/x/{{ request.namespace }}", headers: [{key: A, value: "{{ request.namespace }}"}]}, jmesPath: allowed}`,
			`true`, "GET https://example.com/x/d false [{A d}] null"},
		{`apiCall: {service: {url: "https://{{ request.object.metadata.name }}.example.com/"}, method: POST, data: [{key: num, value: "{{ request.object.spec.num }}"}]}`,
			`{"allowed":true}`, `POST https://web.example.com/ true [] {"num":3}`},
		{`apiCall: {service: {url: "https://example.com/404"}}`, `error: failed to fetch data for APICall: HTTP 404 Not Found: no`, "GET https://example.com/404 false [] null"},
		{`globalReference: {name: "{{ request.namespace }}", jmesPath: "[0].name"}`, `"d"`, "global d"},
		{`globalReference: {name: e.projection}`, `[{"name":"e.projection"}]`, "global e.projection"},
		{`globalReference: {name: missing}`, `error: failed to fetch entry key=missing: there is no such entry`, "global missing"},
		{`imageRegistry: {reference: "ghcr.io/x:{{ request.namespace }}", jmesPath: registry, imageRegistryCredentials: {allowInsecureRegistry: true, providers: [google], secrets: [s]}}`,
			`"ghcr.io"`, "image ghcr.io/x:d true [google] [s]"},
	} {
		chain, diags := compileYAML(t, "", "[{name: v, "+c.entry+"}]")
		if diags != "" {
			t.Errorf("%s: %s", c.entry, diags)
		}
		o := &outside{}
		s := chain.Apply(newScope(&evalenv.Env{World: o.world()}))
		if len(o.asked) > 0 {
			t.Errorf("%s: asked before it was used", c.entry)
		}
		if got := lookup(s, "v"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.entry, got, c.want)
		}
		if asked := strings.Join(o.asked, "; "); asked != c.asked {
			t.Errorf("%s:\nasked %s\n want %s", c.entry, asked, c.asked)
		}
		if needs := chain.Reads().Needs; !needs.Lookups {
			t.Errorf("%s needs no lookups", c.entry)
		}
	}
}

// Rows S1, S2, S4, S5 and S11 of docs/security/threat-model.md: a context entry of a namespaced policy that reads outside its namespace is
// an error, and no request is sent. Each attempt is written in the policy, and also comes through a variable.
func TestS1S2S4S5S11NamespacedPoliciesStayInside(t *testing.T) {
	const own = "team"
	kinds := []string{"secrets/x", "secrets", "configmaps/x", "pods", "serviceaccounts/default/token", "pods/x/proxy/y"}
	paths := []string{
		"/api/v1/secrets", "/api/v1/nodes", "/version", "/", "/api/v1/namespaces", "/api/v1/namespaces/other", "/apis/apps/v1/deployments",
		"/api/v1/namespaces/team/pods/x/proxy/admin", "/api/v1/namespaces/team/services/x/proxy", "/api/v1/watch/namespaces/team/pods",
		"/api/v1/proxy/namespaces/team/pods/x", "/api/v1/namespaces/team/pods?watch=1",
	}
	for _, prefix := range []string{
		"/api/v1/namespaces/other/", "/api/v1/namespaces/team/../other/", "/api/v1/namespaces/team/%2e%2e/other/", "/api/v1/namespaces/team/%2E./other/",
		"/api/v1/namespaces/team/%252e%252e/other/", "/api/v1/namespaces/team%2f..%2fother/", "/api/v1/namespaces/team/..%2fother/",
		"/api/v1//namespaces/other/", "//api/v1/namespaces/other/", "/api/v1/namespaces//other/", "/api/v1/namespaces/other/secrets/x#/namespaces/team/",
		"/api/v1/namespaces/other/secrets/x?/namespaces/team/", "/api/v1/namespaces/other%23/namespaces/team/", "/api/v1/namespaces/other%3f/namespaces/team/",
		"/api/v1/namespaces/team\\..\\other/", "/api/v1/namespaces/team/\u2025/other/", "/api/v1/namespaces/\uff4f\uff54\uff48\uff45\uff52/",
		"/api/v1/namespaces/OTHER/", "/api/v1/namespaces/team./", "/api/v1/namespaces/team;/", "/api/v1/namespaces/team\t/", "/api/v1/./namespaces/other/",
		"https://example.com/api/v1/namespaces/team/", "/apis/v1/namespaces/team/../../../../api/v1/namespaces/other/",
	} {
		for _, k := range kinds {
			paths = append(paths, prefix+k)
		}
	}
	var entries []string
	for _, p := range paths {
		for _, method := range []string{"GET", "POST"} {
			q := value.JSON(p)
			entries = append(entries,
				`[{name: v, apiCall: {method: `+method+`, urlPath: `+q+`}}]`,
				`[{name: p, variable: {value: `+q+`}}, {name: v, apiCall: {method: `+method+`, urlPath: "{{ p }}"}}]`)
		}
	}
	for _, write := range []string{"pods", "serviceaccounts/default/token", "secrets"} { // inside the namespace, but not a read
		entries = append(entries, `[{name: v, apiCall: {method: POST, urlPath: /api/v1/namespaces/team/`+write+`}}]`)
	}
	entries = append(entries,
		`[{name: v, configMap: {name: x, namespace: other}}]`,
		`[{name: n, variable: {value: other}}, {name: v, configMap: {name: x, namespace: "{{ n }}"}}]`,
		`[{name: n, variable: {value: team/../other}}, {name: v, configMap: {name: x, namespace: "{{ n }}"}}]`,
		`[{name: v, globalReference: {name: x}}]`,
		`[{name: v, apiCall: {service: {url: "https://example.com/"}}}]`,
	)
	for _, e := range entries {
		chain, _ := compileYAML(t, own, e)
		o := &outside{}
		got := lookup(chain.Apply(newScope(&evalenv.Env{World: o.world()})), "v")
		if !strings.HasPrefix(got, "error: ") {
			t.Errorf("%s gives %s", e, got)
		}
		if len(o.asked) > 0 {
			t.Errorf("%s asked %s", e, o.asked)
		}
	}
	for _, e := range []string{
		`[{name: v, apiCall: {urlPath: /api/v1/namespaces/team/secrets/x}}]`,
		`[{name: v, apiCall: {urlPath: /api/v1/namespaces/team}}]`,
		`[{name: v, apiCall: {urlPath: "/apis/apps/v1/namespaces/team/deployments?labelSelector=a%3Db"}}]`,
		`[{name: v, apiCall: {method: POST, urlPath: /apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews}}]`,
		`[{name: v, configMap: {name: x}}]`,
		`[{name: v, imageRegistry: {reference: nginx}}]`,
	} {
		chain, diags := compileYAML(t, own, e)
		o := &outside{}
		if got := lookup(chain.Apply(newScope(&evalenv.Env{World: o.world()})), "v"); strings.HasPrefix(got, "error: ") || len(o.asked) != 1 || diags != "" {
			t.Errorf("%s gives %s, %v", e, got, diags)
		}
	}
}

// Data that the world does not offer is an error that says so.
func TestRemoteUnavailable(t *testing.T) {
	for _, e := range []string{
		`apiCall: {urlPath: /api/v1/pods}`, `apiCall: {service: {url: "https://example.com"}}`, `globalReference: {name: x}`, `imageRegistry: {reference: nginx}`,
	} {
		chain, _ := compileYAML(t, "", "[{name: v, "+e+"}]")
		if _, _, err := chain.Apply(newScope(&evalenv.Env{})).Field("v"); !errors.Is(err, world.ErrUnavailable) {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// The total data that the entries of a rule load is limited; using a small part of a long answer is allowed.
func TestContextSize(t *testing.T) {
	w := world.World{API: world.API(func(context.Context, world.APIRequest) (any, error) {
		return map[string]any{"long": strings.Repeat("x", 1_500_000), "short": "y"}, nil
	})}
	for entries, want := range map[string]string{
		`[{name: v, apiCall: {urlPath: /version}}]`:                                                                                           "{",
		`[{name: a, apiCall: {urlPath: /version}}, {name: v, apiCall: {urlPath: /version}}]`:                                                  "{",
		`[{name: a, apiCall: {urlPath: /version}}, {name: b, variable: {jmesPath: length(a)}}, {name: v, apiCall: {urlPath: "/v{{ b }}"}}]`:   "error: context size limit exceeded: ",
		`[{name: a, apiCall: {urlPath: /version, jmesPath: short}}, {name: v, apiCall: {urlPath: "/v{{ a }}"}}]`:                              "{",
		`[{name: a, apiCall: {urlPath: /version}}, {name: b, variable: {jmesPath: length(a)}}, {name: v, variable: {jmesPath: "[a, a, a]"}}]`: "[",
	} {
		chain, _ := compileYAML(t, "", entries)
		if got := lookup(chain.Apply(newScope(&evalenv.Env{World: w})), "v"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.200s, want %s", entries, got, want)
		}
	}
}
