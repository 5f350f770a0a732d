package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// send sends a step, and compares the status of the answer.
func send(t *testing.T, client *http.Client, host string, x Step) {
	t.Helper()
	if err := x.Send(t.Context(), client, host); err != nil {
		t.Error(err)
	}
}

func TestRequests(t *testing.T) {
	s := New(Options{Resources: Builtin()})
	client := &http.Client{Transport: s.Client("test", "admin")}
	for _, x := range Steps {
		send(t, client, "http://apiserver.invalid", x)
	}
}

// get returns the answer to a read.
func get(t *testing.T, c *Client, path, accept string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://apiserver.invalid"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := c.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, out
}

func put(t *testing.T, c *Client, names ...string) {
	t.Helper()
	for _, name := range names {
		send(t, &http.Client{Transport: c}, "http://apiserver.invalid", Step{name, "POST", "/api/v1/namespaces", "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`, 201, ""})
	}
}

// A list in pages shows the state of its first page. After a compaction its token has expired, and the answer has one that goes on in the
// current state.
func TestPages(t *testing.T) {
	s := New(Options{Resources: Builtin()})
	c := s.Client("test", "admin")
	put(t, c, "a", "b", "c", "d")
	names := func(page map[string]any) (out []string) {
		items, _ := page["items"].([]any)
		for _, i := range items {
			out = append(out, textOf(metaOf(i.(map[string]any)), "name"))
		}
		return out
	}
	next := func(page map[string]any) string { return textOf(metaOf(page), "continue") }
	_, one := get(t, c, "/api/v1/namespaces?limit=2", "application/json")
	put(t, c, "c2")
	_, two := get(t, c, "/api/v1/namespaces?limit=2&continue="+next(one), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	if got := fmt.Sprintf("%v %v %q %s", names(one), names(two), next(two), two["kind"]); got != `[a b] [c d] "" PartialObjectMetadataList` {
		t.Errorf("the pages are %s", got)
	}
	s.Compact()
	code, gone := get(t, c, "/api/v1/namespaces?limit=2&continue="+next(one), "application/json")
	if code != http.StatusGone || gone["reason"] != "Expired" || next(gone) == "" {
		t.Fatalf("%d %v", code, gone)
	}
	if _, rest := get(t, c, "/api/v1/namespaces?continue="+next(gone), "application/json"); fmt.Sprint(names(rest)) != "[c c2 d]" {
		t.Errorf("the rest is %v", names(rest))
	}
}

// watching returns the events of a watch until it waits for more.
func watching(t *testing.T, c *Client, query string) (events func() string) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, "GET", "http://apiserver.invalid/api/v1/namespaces?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	go func() {
		defer response.Body.Close()
		d := json.NewDecoder(response.Body)
		for {
			var e struct {
				Type   string
				Object map[string]any
			}
			if d.Decode(&e) != nil {
				seen.WriteString("end")
				return
			}
			fmt.Fprintf(&seen, "%s %s%s ", e.Type, textOf(metaOf(e.Object), "name"), textOf(e.Object, "reason"))
		}
	}()
	return func() string {
		synctest.Wait()
		return strings.Join(strings.Fields(seen.String()), " ")
	}
}

// Watches show what happened since a version, bookmarks and their end; a forgotten version has expired.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Resources: Builtin()})
		c := s.Client("test", "admin")
		put(t, c, "a")
		version := fmt.Sprint(s.Version())
		put(t, c, "b")
		since := watching(t, c, "resourceVersion="+version+"&allowWatchBookmarks=true&timeoutSeconds=100")
		initial := watching(t, c, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		one := watching(t, c, "fieldSelector=metadata.name%3Da")
		send(t, &http.Client{Transport: c}, "http://x", Step{"label", "PATCH", "/api/v1/namespaces/a", "application/merge-patch+json", `{"metadata":{"labels":{"x":"y"}}}`, 200, ""})
		time.Sleep(61 * time.Second)
		for name, w := range map[string]struct {
			events func() string
			want   string
		}{
			"since":   {since, "ADDED b MODIFIED a BOOKMARK"},
			"initial": {initial, "ADDED a ADDED b BOOKMARK MODIFIED a BOOKMARK"},
			"one":     {one, "ADDED a MODIFIED a"},
		} {
			if got := w.events(); got != w.want {
				t.Errorf("%s: %s, want %s", name, got, w.want)
			}
		}
		c.Hold()
		put(t, s.Client("other", "admin"), "c")
		if got := one(); got != "ADDED a MODIFIED a" {
			t.Errorf("while the way is held: %s", got)
		}
		c.Release()
		if got := initial(); !strings.HasSuffix(got, "BOOKMARK ADDED c") {
			t.Errorf("after that: %s", got)
		}
		time.Sleep(time.Minute)
		if got := since(); !strings.HasSuffix(got, "end") {
			t.Errorf("after its timeout: %s", got)
		}
		s.Compact()
		if got := watching(t, c, "resourceVersion="+version)(); got != "ERROR Expired end" {
			t.Errorf("of a forgotten version: %s", got)
		}
	})
}

// Dependents of a deleted owner are deleted, and so is the content of a namespace; a definition serves its kind.
func TestControllersOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Resources: Builtin()})
		client := &http.Client{Transport: s.Client("test", "admin")}
		put(t, s.Client("test", "admin"), "a")
		do := func(x Step) { t.Helper(); send(t, client, "http://x", x) }
		const maps = "/api/v1/namespaces/a/configmaps"
		do(Step{"owner", "POST", maps, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owner"}}`, 201, ""})
		uid := textOf(metaOf(s.Object(schema.GroupResource{Resource: "configmaps"}, "a", "owner")), "uid")
		do(Step{"owned", "POST", maps, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"` + uid + `"}]}}`, 201, ""})
		do(Step{"delete the owner", "DELETE", maps + "/owner", "", "", 200, ""})
		do(Step{"at once", "GET", maps + "/owned", "", "", 200, ""})
		time.Sleep(2 * time.Second)
		do(Step{"later", "GET", maps + "/owned", "", "", 404, "NotFound"})
		do(Step{"define", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"kind":"Widget","plural":"widgets"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}}}]}}`, 201, ""})
		do(Step{"a widget", "POST", "/apis/example.com/v1/namespaces/a/widgets", "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1},"status":{"no":"status"}}`, 201, ""})
		do(Step{"without a version", "PUT", "/apis/example.com/v1/namespaces/a/widgets/w", "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`, 422, "Invalid"})
		do(Step{"its status", "PATCH", "/apis/example.com/v1/namespaces/a/widgets/w/status", "application/merge-patch+json", `{"spec":{"size":2},"status":{"ready":true}}`, 200, ""})
		w := s.Object(schema.GroupResource{Group: "example.com", Resource: "widgets"}, "a", "w")
		if got := fmt.Sprint(w["spec"], w["status"], metaOf(w)["generation"]); got != "map[size:1] map[ready:true] 1" {
			t.Errorf("the widget is %s", got)
		}
		do(Step{"delete the namespace", "DELETE", "/api/v1/namespaces/a", "", "", 200, ""})
		time.Sleep(5 * time.Second)
		do(Step{"the namespace", "GET", "/api/v1/namespaces/a", "", "", 404, "NotFound"})
		if n := len(s.Objects(schema.GroupResource{Group: "example.com", Resource: "widgets"})); n != 0 {
			t.Errorf("%d widgets are left", n)
		}
	})
}
