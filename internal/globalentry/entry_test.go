package globalentry_test

import (
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/value"
)

func compile(t *testing.T, version, spec string) (*globalentry.Entry, string) {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte("apiVersion: kyverno.io/"+version+"\nkind: GlobalContextEntry\nmetadata: {name: e}\nstatus: {odd: 1}\nspec: "+spec), &object); err != nil {
		t.Fatal(err)
	}
	e, diags := globalentry.Compile(object)
	text := ""
	for _, d := range diags {
		text += d.Path + ": " + d.Summary + "\n"
	}
	return e, text
}

// The mistakes of entries, with Kyverno's texts.
func TestMistakes(t *testing.T) {
	for spec, want := range map[string]string{
		`{kubernetesResource: {version: v1, resource: pods}, projections: [{name: p, jmesPath: "[]"}]}`: "",
		`{apiCall: {urlPath: /api/v1/pods}}`: "",
		`{apiCall: {method: POST, data: [{key: a, value: 1}], service: {url: "https://example.com"}, refreshInterval: 1m, retryLimit: 2}}`: "",
		`{}`: "spec: A global context entry should either have KubernetesResource or APICall\n",
		`{kubernetesResource: {version: v1, resource: pods}, apiCall: {urlPath: /version}}`: "spec: A global context entry should either have KubernetesResource or APICall\n",
		`{kubernetesResource: {group: apps, version: v1}}`:                                  "spec.kubernetesResource.resource: A Resource entry requires a resource\n",
		`{kubernetesResource: {resource: pods}}`:                                            "spec.kubernetesResource.version: A Resource entry requires a version\n",
		`{kubernetesResource: {version: v1beta1, resource: ingresses}}`:                     "spec.kubernetesResource.group: A Resource entry requires a group\n",
		`{kubernetesResource: {resource: pods, version: v1, kind: Pod}}`:                    "spec.kubernetesResource.kind: unknown field \"kind\"\n",
		`{apiCall: {refreshInterval: 0s, urlPath: /version}}`:                               "spec.apiCall.refreshInterval: A Resource entry requires a refresh interval greater than 0 seconds\n",
		`{apiCall: {}}`: "spec.apiCall: An External API call should either have Service or URLPath\n",
		`{apiCall: {urlPath: /version, service: {url: "https://x"}}}`:                                    "spec.apiCall: An External API call should either have Service or URLPath\n",
		`{apiCall: {urlPath: /version, data: [{key: a, value: 1}]}}`:                                     "spec.apiCall.method: An External API call with data should have method as POST\n",
		`{apiCall: {method: PUT, service: {url: ""}}}`:                                                   "spec.apiCall.service.url: Required value: a service has a URL\nspec.apiCall.method: Unsupported value: \"PUT\": supported values: \"GET\", \"POST\"\n",
		`{apiCall: {urlPath: "/api/v1/namespaces/{{ x }}"}}`:                                             "spec.apiCall.urlPath: invalid API path \"/api/v1/namespaces/{{ x }}\": the segment \"{{ x }}\" has characters that no Kubernetes name has\n",
		`{kubernetesResource: {version: v1, resource: pods}, projections: [{name: "", jmesPath: a}]}`:    "spec.projections[0].name: A projection entry requires a name\n",
		`{kubernetesResource: {version: v1, resource: pods}, projections: [{name: e, jmesPath: a}]}`:     "spec.projections[0].name: A projection entry requires a name different from the global context entry name\n",
		`{kubernetesResource: {version: v1, resource: pods}, projections: [{name: p, jmesPath: ""}]}`:    "spec.projections[0].jmesPath: A projection entry requires a JMESPath\n",
		`{kubernetesResource: {version: v1, resource: pods}, projections: [{name: p, jmesPath: "a["}]}`:  "spec.projections[0].jmesPath: failed to parse JMESPath a[: SyntaxError: Expected tStar, received: tEOF\n",
		`{kubernetesResource: {version: v1, resource: pods}, apiCall: {retryLimit: -1, urlPath: /x/..}}`: "spec: A global context entry should either have KubernetesResource or APICall\nspec.apiCall.retryLimit: Invalid value: -1: should be greater than or equal to 1\nspec.apiCall.urlPath: invalid API path \"/x/..\": it has a dot segment\n",
	} {
		e, got := compile(t, "v2", spec)
		if got != want {
			t.Errorf("%s:\ngot  %swant %s", spec, got, want)
		}
		if _, err := e.Project(t.Context(), "", nil); (err == nil) != (want == "") {
			t.Errorf("%s: data of the entry: %v", spec, err)
		}
	}
	if _, got := compile(t, "v3", `{apiCall: {urlPath: /version}}`); got != "apiVersion: no version \"v3\" of GlobalContextEntry in group kyverno.io\n" {
		t.Errorf("version: %s", got)
	}
}

func TestEntry(t *testing.T) {
	e, _ := compile(t, "v2alpha1", `{kubernetesResource: {group: apps, version: v1, resource: deployments, namespace: a}, projections: [{name: names, jmesPath: "[].n"}]}`)
	if *e.Resource != (globalentry.Resource{APIVersion: "apps/v1", Resource: "deployments", Namespace: "a"}) || e.Call != nil {
		t.Errorf("%+v", e)
	}
	data := []any{map[string]any{"n": "x"}}
	for name, want := range map[string]string{"": `[{"n":"x"}]`, "names": `["x"]`, "other": "error: the GlobalContextEntry e has no projection other"} {
		v, err := e.Project(t.Context(), name, data)
		got := value.JSON(v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	e, _ = compile(t, "v2beta1", `{apiCall: {method: POST, data: [{key: a, value: [1]}], urlPath: "/apis/x.io/v1/reviews"}}`)
	if c := e.Call; c.Refresh != 10*time.Minute || c.Retries != 3 || c.API.Method != "POST" || c.API.Path.String() != "/apis/x.io/v1/reviews" || value.JSON(c.API.Body) != `{"a":[1]}` {
		t.Errorf("%+v", c)
	}
	e, _ = compile(t, "v2", `{apiCall: {service: {url: "https://x/y", caBundle: pem, headers: [{key: A, value: b}]}, refreshInterval: 30s, retryLimit: 1}}`)
	if c := e.Call; c.Refresh != 30*time.Second || c.Retries != 1 || c.Service.URL != "https://x/y" || c.Service.CABundle != "pem" || c.Service.Headers[0].Name != "A" || c.Service.Method != "GET" {
		t.Errorf("%+v", c)
	}
}
