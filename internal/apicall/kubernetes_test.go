package apicall

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

func TestKubernetes(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := func(code int, message string) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "message": %q}`, message)
		}
		switch r.URL.Path {
		case "/base/api/v1/nodes":
			status(http.StatusForbidden, "nodes is forbidden")
		case "/base/api/v1/nodes/x":
			status(http.StatusNotFound, `nodes "x" not found`)
		case "/base/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/base/redirect":
			http.Redirect(w, r, "/base/api/v1/pods", http.StatusFound)
		case "/base/long":
			fmt.Fprintf(w, "%q", strings.Repeat("x", 5000))
		default:
			fmt.Fprintf(w, `{"request": %q, "body": %q, "token": %q, "number": 9007199254740993}`, r.Method+" "+r.RequestURI, body, r.Header.Get("Authorization"))
		}
	}))
	defer srv.Close()
	k, err := NewKubernetes(&rest.Config{Host: srv.URL + "/base", BearerToken: "ours"}, Limits{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		body         any
		want         string
	}{
		{"GET", "/api/v1/namespaces/a/pods?labelSelector=x in (a,b)", nil,
			`{"body":"","number":9007199254740993,"request":"GET /base/api/v1/namespaces/a/pods?labelSelector=x+in+%28a%2Cb%29","token":"Bearer ours"}`},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", map[string]any{"spec": 1.0},
			`{"body":"{\"spec\":1}","number":9007199254740993,"request":"POST /base/apis/authorization.k8s.io/v1/subjectaccessreviews","token":"Bearer ours"}`},
		{"GET", "/api/v1/nodes", nil, "error: permission denied: nodes is forbidden"},
		{"GET", "/api/v1/nodes/x", nil, `error: nodes "x" not found`},
		{"GET", "/broken", nil, "error: Bad Gateway"},
		{"GET", "/redirect", nil, "error: redirects are not followed"},
		{"GET", "/long", nil, "error: response length must be less than max allowed response length of 1000"},
	} {
		p, err := apipath.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := k.Call(t.Context(), world.APIRequest{Method: c.method, Path: p, Body: c.body})
		got := value.JSON(v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.path, got, c.want)
		}
	}
}
