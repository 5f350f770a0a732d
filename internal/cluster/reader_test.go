package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

var pods = discovery.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true, Preferred: true, Listable: true, Readable: true}

// broken is an answer that the server gives once, with status 500.
const broken = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`

// server is an API server with the answers for the paths that the owner of the token jane may read; the others are forbidden.
func server(t *testing.T, answers map[string]string) *Reader {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		path := r.URL.Path
		if token := r.URL.Query().Get("continue"); token != "" {
			path += "?" + token
		}
		answer, ok := answers[path]
		if !ok || r.Header.Get("Authorization") != "Bearer jane" {
			w.WriteHeader(http.StatusForbidden)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		} else if strings.Contains(answer, `"code":410`) {
			w.WriteHeader(http.StatusGone)
		} else if answer == broken {
			answers[r.URL.Path] = `{"metadata":{"name":"a","labels":{"team":"x"}}}`
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	client, err := As(&rest.Config{Host: s.URL, BearerToken: "of the controller"}, "jane")
	if err != nil {
		t.Fatal(err)
	}
	return New(client, Options{Kinds: discovery.List{pods}})
}

// A user who may not list all objects gets those of the visible namespaces, page by page, and an error for each list that is forbidden. A list
// whose state is too old goes on.
func TestList(t *testing.T) {
	item := func(name string) string { return fmt.Sprintf(`{"metadata":{"name":%q}}`, name) }
	c := server(t, map[string]string{
		"/api/v1/namespaces/a/pods":        `{"metadata":{"continue":"second"},"items":[` + item("one") + `]}`,
		"/api/v1/namespaces/a/pods?second": `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":"rest"}}`,
		"/api/v1/namespaces/a/pods?rest":   `{"metadata":{},"items":[` + item("two") + `,` + item("three") + `]}`,
	})
	read := func(w Where, most int) (names []string, denied int) {
		t.Helper()
		for object, err := range c.List(t.Context(), pods, w) {
			switch {
			case apierrors.IsForbidden(err):
				denied++
			case err != nil:
				t.Fatal(err)
			default:
				if object["kind"] != "Pod" || object["apiVersion"] != "v1" {
					t.Errorf("%v", object)
				}
				if names = append(names, object["metadata"].(map[string]any)["name"].(string)); len(names) == most {
					return names, denied
				}
			}
		}
		return names, denied
	}
	for _, x := range []struct {
		where  Where
		most   int
		names  string
		denied int
	}{
		{Where{Visible: []string{"b", "a"}}, 0, "one two three", 2},
		{Where{Namespaces: []string{"a"}, Visible: []string{"b"}}, 0, "one two three", 0},
		{Where{Visible: []string{"a", "b"}}, 2, "one two", 1},
		{Where{}, 0, "", 1},
	} {
		if names, denied := read(x.where, x.most); strings.Join(names, " ") != x.names || denied != x.denied {
			t.Errorf("%+v: %q, %d lists are forbidden", x.where, names, denied)
		}
	}
}

// Answers about namespaces are remembered, but not that there was no answer in time, nor a failure of the API server.
func TestNamespaceLabels(t *testing.T) {
	c := server(t, map[string]string{"/api/v1/namespaces/a": broken})
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := c.NamespaceLabels(over, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := c.NamespaceLabels(t.Context(), "a"); !apierrors.IsInternalError(err) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if labels, err := c.NamespaceLabels(t.Context(), "a"); err != nil || labels["team"] != "x" {
			t.Errorf("%v, %v", labels, err)
		}
	}
	if len(c.labels) != 1 {
		t.Errorf("%d namespaces are remembered", len(c.labels))
	}
}

// An answer that is too long is an error, and an owner of a kind that is not served is gone.
func TestBounds(t *testing.T) {
	c := server(t, map[string]string{"/api/v1/pods": `{"items":[],"x":"` + strings.Repeat("x", maxAnswer) + `"}`})
	for _, err := range c.List(t.Context(), pods, Where{}) {
		if !bounded.Exceeded(err) {
			t.Errorf("%v", err)
		}
	}
	if _, found, err := c.Meta(t.Context(), compliance.Resource{APIVersion: "apps/v1", Kind: "Gone", Name: "x"}); found || err != nil {
		t.Errorf("%t, %v", found, err)
	}
}

// unknown are the kinds of an API server whose discovery fails.
type unknown struct{}

var errUnknown = errors.New("the kinds are not known")

func (unknown) Find(policy.Target) ([]discovery.Resource, error) { return nil, errUnknown }

// Without the kinds of the API server, it is an error that exceptions are not read: without them, policies seem to deny what they exempt.
func TestExceptionsOfUnknownKinds(t *testing.T) {
	c := server(t, nil)
	c.o.Kinds = unknown{}
	found, errs := c.Exceptions(t.Context(), Where{}, time.Now())
	if len(found) > 0 || len(errs) == 0 || !errors.Is(errs[0], errUnknown) {
		t.Errorf("%v, %v", found, errs)
	}
}
