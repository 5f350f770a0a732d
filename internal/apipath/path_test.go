package apipath_test

import (
	"reflect"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/apipath"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		path      apipath.Path
		namespace string
		written   string // "" if it equals the text
	}{
		"/api/v1/namespaces/a/pods/x":              {apipath.Path{Version: "v1", Namespace: "a", Resource: "pods", Name: "x"}, "a", ""},
		"/api/v1/namespaces/a/pods":                {apipath.Path{Version: "v1", Namespace: "a", Resource: "pods"}, "a", ""},
		"/api/v1/pods":                             {apipath.Path{Version: "v1", Resource: "pods"}, "", ""},
		"/api/v1/namespaces":                       {apipath.Path{Version: "v1", Resource: "namespaces"}, "", ""},
		"/api/v1/namespaces/a":                     {apipath.Path{Version: "v1", Resource: "namespaces", Name: "a"}, "a", ""},
		"/api/v1/namespaces/a/status":              {apipath.Path{Version: "v1", Resource: "namespaces", Name: "a", Subresource: []string{"status"}}, "a", ""},
		"/apis/apps/v1/namespaces/a/deployments/d": {apipath.Path{Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Name: "d"}, "a", ""},
		"/api/v1/namespaces/a/pods/x/log":          {apipath.Path{Version: "v1", Namespace: "a", Resource: "pods", Name: "x", Subresource: []string{"log"}}, "a", ""},
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node": {
			apipath.Path{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Name: "system:node"}, "", ""},
		"/api/v1/namespaces/%61/pods": {apipath.Path{Version: "v1", Namespace: "a", Resource: "pods"}, "a", "/api/v1/namespaces/a/pods"},
		" /api/v1/pods/ ":             {apipath.Path{Version: "v1", Resource: "pods"}, "", "/api/v1/pods"},
		"/api/v1/pods?labelSelector=a=b": {apipath.Path{Version: "v1", Resource: "pods",
			Query: map[string][]string{"labelSelector": {"a=b"}}}, "", "/api/v1/pods?labelSelector=a%3Db"},
		"/version": {apipath.Path{Other: []string{"version"}}, "", ""},
		"/apis/v1": {apipath.Path{Other: []string{"apis", "v1"}}, "", ""},
	} {
		got, err := apipath.Parse(text)
		if err != nil || !reflect.DeepEqual(got, want.path) || got.InNamespace() != want.namespace {
			t.Errorf("%s: %+v in %q, %v", text, got, got.InNamespace(), err)
		}
		if want.written == "" {
			want.written = text
		}
		if got.String() != want.written {
			t.Errorf("%s is written %s", text, got.String())
		}
	}
}

// Row S2 of docs/security/threat-model.md: a path that was not understood completely is rejected, so that the check and the
// server never interpret it differently.
func TestS2RefusedPaths(t *testing.T) {
	for _, text := range []string{
		"", "/", "api/v1/pods", "//", "//api/v1/pods", "/api//v1/pods", "/api/v1/namespaces//pods", "/api/v1/namespaces/a/pods//",
		"/api/v1/namespaces/a/../b/secrets", "/api/v1/namespaces/a/./secrets", "/api/v1/namespaces/a/..", "/..", "/../api/v1/pods",
		"/api/v1/namespaces/a/%2e%2e/b/secrets", "/api/v1/namespaces/a/%2E%2e/b/secrets", "/api/v1/namespaces/a/.%2e/b/secrets",
		"/api/v1/namespaces/a/%252e%252e/b/secrets", "/api/v1/namespaces/a%2f..%2fb/secrets", "/api/v1/namespaces/a%2Fb/secrets",
		"/api/v1/namespaces/a/secrets#/x", "/api/v1/namespaces/b/secrets/x#/namespaces/a/", "/api/v1/namespaces/a/secrets%23", "/api/v1/pods?x=1#y",
		"/api/v1/namespaces/b%3f/secrets", "/api/v1/namespaces/a\\..\\b/secrets", "/api/v1/namespaces/a%5c..%5cb/secrets",
		"/api/v1/namespaces/a%00/secrets", "/api/v1/namespaces/a\n/secrets", "/api/v1/namespaces/a b/secrets", "/api/v1/namespaces/%zz/secrets",
		"/api/v1/namespaces/a\u2024\u2024/secrets", "/api/v1/namespaces/\uff0e\uff0e/secrets", "/api/v1/namespaces/\u00e4/secrets", "/api/v1/names\u0440aces/a/secrets",
		"/api/v1/namespaces/A/secrets", "/api/v1/namespaces/-a/secrets", "/api/v1/namespaces/a.b/secrets", "/api/V1/pods", "/apis/Apps/v1/deployments",
		"/api/v1/namespaces/a/Secrets/x", "/api/v1/namespaces/a/secrets;x=1", "/api/v1/pods?watch=true", "/api/v1/pods?watch", "/api/v1/pods/x/log?follow=1",
		"/api/v1/pods?%zz", "/api/v1/pods?a=1;b=2", "https://example.com/api/v1/pods", "/" + strings.Repeat("a", 9000), "/version?" + strings.Repeat("\xbb", 4000),
	} {
		if got, err := apipath.Parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/api/v1/namespaces/a/pods?x=1", "/apis/g/v1/r/n/s", "/..%2f", "/version"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := apipath.Parse(text)
		if err != nil {
			return
		}
		again, err := apipath.Parse(p.String())
		if err != nil || !reflect.DeepEqual(p.Segments(), again.Segments()) || p.InNamespace() != again.InNamespace() {
			t.Errorf("%q gives %+v, and %q gives %+v, %v", text, p, p.String(), again, err)
		}
		if s := p.String(); strings.ContainsAny(strings.SplitN(s, "?", 2)[0], "%#\\ ") || strings.Contains(s, "/../") {
			t.Errorf("%q is written %q", text, s)
		}
	})
}
