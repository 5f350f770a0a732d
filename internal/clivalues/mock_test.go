package clivalues

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/world"
)

func TestCalls(t *testing.T) {
	body := map[string]any{"ok": true}
	c, err := NewCalls([]v1alpha1.APICallResponse{
		{URL: "https://a.example/x", Response: v1alpha1.MockResponse{Body: body}},
		{URL: "https://a.example/x", Method: "POST", Response: v1alpha1.MockResponse{StatusCode: 404, Body: body}},
		{URLPath: "/api/v1/namespaces/a/pods?limit=1", Response: v1alpha1.MockResponse{StatusCode: 201, Body: "list"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		method, url, want string
	}{
		{"GET", "https://a.example/x", ""},
		{"POST", "https://a.example/x", `HTTP 404: {"ok":true}`},
		{"GET", "https://a.example/y", "apiCallResponses has no answer to GET https://a.example/y: not available here"},
	} {
		got, err := c.Services()(t.Context(), world.ServiceRequest{Method: x.method, URL: x.url})
		if x.want == "" && (err != nil || !reflect.DeepEqual(got, body)) || x.want != "" && (err == nil || err.Error() != x.want) {
			t.Errorf("%s %s: %v, %v", x.method, x.url, got, err)
		}
	}
	next := world.API(func(_ context.Context, r world.APIRequest) (any, error) { return "next " + r.Path.String(), nil })
	for _, x := range []struct {
		path string
		next world.API
		want string
	}{
		{"/api/v1/namespaces/a/pods?limit=1", nil, "list"},
		{"/api/v1/nodes", next, "next /api/v1/nodes"},
		{"/api/v1/nodes", nil, ""},
	} {
		p, err := apipath.Parse(x.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.API(x.next)(t.Context(), world.APIRequest{Method: "GET", Path: p})
		if x.want == "" && err == nil || x.want != "" && got != x.want {
			t.Errorf("%s: %v, %v", x.path, got, err)
		}
	}
	none, _ := NewCalls(nil)
	if none.API(nil) != nil {
		t.Error("without any answer there is an API")
	}
}

func TestCallsMistakes(t *testing.T) {
	ok := v1alpha1.MockResponse{Body: "x"}
	for want, list := range map[string][]v1alpha1.APICallResponse{
		`apiCallResponses[0]: invalid method "PUT", must be GET or POST`:           {{URL: "https://a", Method: "PUT", Response: ok}},
		`apiCallResponses[0]: exactly one of url and urlPath must be set`:          {{Response: ok}},
		`apiCallResponses[0]: response.body is required`:                           {{URL: "https://a"}},
		`apiCallResponses[0]: url "a/b" must be an absolute http or https URL`:     {{URL: "a/b", Response: ok}},
		`apiCallResponses[0]: url "ftp://a" must be an absolute http or https URL`: {{URL: "ftp://a", Response: ok}},
		`apiCallResponses[1]: duplicate response for GET https://a`:                {{URL: "https://a", Response: ok}, {URL: "https://a", Method: "GET", Response: ok}},
		`apiCallResponses[0]: invalid API path "/api/../x": `:                      {{URLPath: "/api/../x", Response: ok}},
	} {
		if _, err := NewCalls(list); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestGlobals(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pods.yaml"), []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := NewGlobals([]v1alpha1.GlobalContextEntryValue{
		{Name: "data", Data: map[string]any{"list": []any{1.0, 2.0}}, Projections: []v1alpha1.GlobalContextProjection{{Name: "count", Path: "length(list)"}}},
		{Name: "part", Data: map[string]any{"a": map[string]any{"b": "c"}}, FieldPath: "a.b"},
		{Name: "pods", ResourceFiles: []string{"pods.yaml"}, FieldPath: "metadata.name", Projections: []v1alpha1.GlobalContextProjection{{Name: "first", Path: "[0]"}}},
		{Name: "with.dot", Resources: []any{map[string]any{"kind": "X"}}},
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"data":       map[string]any{"list": []any{1.0, 2.0}, "count": 2.0},
		"data.count": 2.0,
		"part":       "c",
		"pods":       []any{"a", "b"},
		"pods.first": "a",
		"with.dot":   []any{map[string]any{"kind": "X"}},
	} {
		if got, err := g(t.Context(), world.GlobalRequest(name)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"other", "data.other"} {
		if _, err := g(t.Context(), world.GlobalRequest(name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	for want, e := range map[string]v1alpha1.GlobalContextEntryValue{
		"a name is required":                      {Data: 1.0},
		"entry x: exactly one of data, resources": {Name: "x"},
		"entry x: the file ../p.yaml is not":      {Name: "x", ResourceFiles: []string{"../p.yaml"}},
		"entry x: projection p: SyntaxError":      {Name: "x", Data: "x", Projections: []v1alpha1.GlobalContextProjection{{Name: "p", Path: "["}}},
		"entry x: projections need names":         {Name: "x", Data: "x", Projections: []v1alpha1.GlobalContextProjection{{Path: "@"}}},
		"missing.yaml: no such file or directory": {Name: "x", ResourceFiles: []string{"missing.yaml"}},
	} {
		if _, err := NewGlobals([]v1alpha1.GlobalContextEntryValue{e}, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	twice := []v1alpha1.GlobalContextEntryValue{{Name: "x", Data: 1.0}, {Name: "x", Data: 2.0}}
	if _, err := NewGlobals(twice, dir); err == nil || err.Error() != `globalContextEntries[1]: duplicate entry "x"` {
		t.Error(err)
	}
}
