package scan

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

var pods = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// The hash covers labels, annotations, and everything except kind, metadata and status.
func TestContentHash(t *testing.T) {
	const pod = `{"kind": "Pod", "metadata": {"name": "p", "resourceVersion": "1", "labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"phase": "Running"}}`
	hash := func(text string) uint64 {
		t.Helper()
		i, err := itemOf(text, pods)
		if err != nil {
			t.Fatal(err)
		}
		return i.hash
	}
	for name, c := range map[string]struct {
		old, new string
		same     bool
	}{
		"kind":             {`"kind": "Pod", `, ``, true},
		"status":           {`{"phase": "Running"}`, `null`, true},
		"version":          {`"resourceVersion": "1"`, `"resourceVersion": "2"`, true},
		"managed":          {`"name": "p"`, `"name": "p", "managedFields": ["x"]`, true},
		"label":            {`"a": "b"`, `"a": "c"`, false},
		"annotations":      {`"labels"`, `"annotations"`, false},
		"spec":             {`"x": 1`, `"x": 2`, false},
		"another member":   {`"spec"`, `"data": {}, "spec"`, false},
		"a renamed member": {`"spec"`, `"data"`, false},
	} {
		changed := strings.Replace(pod, c.old, c.new, 1)
		if changed == pod {
			t.Fatalf("%s: nothing changes", name)
		}
		if got := hash(changed) == hash(pod); got != c.same {
			t.Errorf("%s: the same content is %v, want %v", name, got, c.same)
		}
	}
}

// Objects of a list have the kind that the API server leaves out, and only the fields that are read.
func TestPageOf(t *testing.T) {
	const (
		list = `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "x", "remainingItemCount": 2}, "items": [%], "more": 1}`
		pod  = `{"metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3, "managedFields": [{}]}, "spec": {"a": [1.5, "\u00e9"], "b": {}}}`
	)
	spec := &value.Fields{}
	spec.Member("spec").Member("a").ReadAll()
	for name, c := range map[string]struct {
		text   string
		kind   schema.GroupVersionKind
		fields *value.Fields
		want   string // the decoded object
	}{
		"without a kind":      {pod, pods, nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"generation":3,"managedFields":[{}],"name":"p","namespace":"n","uid":"u"},"spec":{"a":[1.5,"é"],"b":{}}}`},
		"some fields":         {pod, pods, spec, `{"spec":{"a":[1.5,"é"]}}`},
		"with a kind":         {`{"apiVersion": "x/v1", "kind": "X"}`, pods, nil, `{"apiVersion":"x/v1","kind":"X"}`},
		"an empty object":     {`{ }`, schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "X"}, nil, `{"apiVersion":"x/v1","kind":"X"}`},
		"labels without text": {`{"kind": "X", "metadata": {"labels": null}}`, pods, nil, `{"kind":"X","metadata":{"labels":null}}`},
	} {
		p, err := pageOf(strings.Replace(list, "%", c.text, 1), c.kind)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.version != "7" || p.next != "x" || len(p.items) != 1 {
			t.Fatalf("%s: %+v", name, p)
		}
		doc, err := p.items[0].decode(c.fields)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v, _ := doc.Value()
		if got := value.JSON(v); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	p, err := pageOf(strings.Replace(list, "%", pod+","+pod, 1), pods)
	if err != nil {
		t.Fatal(err)
	}
	if i := p.items[1]; len(p.items) != 2 || i.name != "p" || i.namespace != "n" || i.uid != "u" || i.hash != p.items[0].hash {
		t.Errorf("two objects: %+v", i)
	}
	if want := metaHash("", 3, nil, nil); p.items[1].meta != want {
		t.Errorf("the hash of the metadata is %d, want %d", p.items[1].meta, want)
	}
	for name, text := range map[string]string{
		"cut": list[:20], "not an object": `[]`, "more text": strings.Replace(list, "%", "", 1) + "{}", "items": `{"items": {}}`,
		"an item": strings.Replace(list, "%", "1", 1), "a name": strings.Replace(list, "%", `{"metadata": {"name": 1}}`, 1),
		"a label": strings.Replace(list, "%", `{"metadata": {"labels": {"a": 1}}}`, 1),
	} {
		if _, err := pageOf(text, pods); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A kind is read in pages, in smaller ones where objects are large, and each object once. An object by name has its own path.
func TestSweepReadsPages(t *testing.T) {
	large := strings.Repeat("x", pageBytes/3)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		object := func(i int) string {
			return fmt.Sprintf(`{"metadata": {"name": "c%d", "namespace": "a", "uid": "%d"}, "data": {"x": "%s"}}`, i, i, large)
		}
		switch limit, _ := strconv.Atoi(r.FormValue("limit")); {
		case strings.HasSuffix(r.URL.Path, "/gone"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		case limit == 0:
			fmt.Fprint(w, object(7))
		case strings.HasSuffix(r.URL.Path, "/nodes"): // ignores the limit
			fmt.Fprintf(w, `{"items": [%s]}`, strings.Join([]string{object(0), object(1), object(2), object(3)}, ","))
		default:
			first, _ := strconv.Atoi(r.FormValue("continue"))
			var items []string
			for i := first; i < min(5, first+limit); i++ {
				items = append(items, object(i))
			}
			next := ""
			if first+limit < 5 {
				next = strconv.Itoa(first + limit)
			}
			fmt.Fprintf(w, `{"kind": "ConfigMapList", "metadata": {"resourceVersion": "9", "continue": "%s"}, "items": [%s]}`, next, strings.Join(items, ","))
		}
	}))
	defer server.Close()
	client, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	p := rule(t, "", `resources: {kinds: [ConfigMap]}`, pattern)
	var evaluated sync.Map
	s := New(Options{
		Objects: client, Sink: &sink{}, Workers: 1, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Conf: func() policy.Conf { return policy.Conf{} },
		Eval: func(_ context.Context, in engine.Input) policy.Outcome {
			if _, twice := evaluated.LoadOrStore(in.Request.Name, true); twice {
				t.Errorf("%s is evaluated twice", in.Request.Name)
			}
			return policy.Outcome{Request: in.Request}
		},
	})
	l := newLoop(s)
	resource := Resource{served[2].GVR(), served[2].Kind}
	l.set.Store(&set{resource: resource, snapshot: catalog.NewStatic([]*policy.Program{p}), programs: []*policy.Program{p}, revision: 1, changes: []change{{revision: 1}}})
	version, err := l.sweep(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if version != "9" || len(l.objects) != 5 {
		t.Errorf("version %s, %d objects", version, len(l.objects))
	}
	for i := range 5 {
		if _, ok := evaluated.Load(fmt.Sprint("c", i)); !ok {
			t.Errorf("c%d is not evaluated", i)
		}
	}
	var limits []string
	for _, a := range asked {
		u, _ := url.Parse(a)
		limits = append(limits, u.Path+" "+u.Query().Get("continue")+" "+u.Query().Get("limit"))
	}
	const of = "/api/v1/configmaps "
	want := []string{of + " 100", of + " 12", of + " 1", of + "1 2", of + "3 4"}
	if !slices.Equal(limits, want) {
		t.Errorf("requests %q, want %q", limits, want)
	}
	nodes := Resource{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "Node"}
	if _, err := list(t.Context(), client, nodes, metav1.ListOptions{Limit: 2}); !bounded.Exceeded(err) {
		t.Errorf("a large page: %v", err)
	}
	if p, err := list(t.Context(), client, nodes, metav1.ListOptions{Limit: 1}); err != nil || len(p.items) != 4 {
		t.Errorf("a server without pages: %v", err)
	}
	i, err := get(t.Context(), client, resource, "a", "c7")
	if err != nil || i.name != "c7" || !strings.HasSuffix(asked[len(asked)-1], "/api/v1/namespaces/a/configmaps/c7") {
		t.Errorf("by name: %v %v", i, err)
	}
	if _, err := get(t.Context(), client, resource, "a", "gone"); !apierrors.IsNotFound(err) {
		t.Errorf("an object that is gone: %v", err)
	}
}

func TestPath(t *testing.T) {
	for want, got := range map[string][]string{
		"api/v1/pods":                             path(Resource{pods.GroupVersion().WithResource("pods"), "Pod"}, "", ""),
		"api/v1/namespaces/n/pods/p":              path(Resource{pods.GroupVersion().WithResource("pods"), "Pod"}, "n", "p"),
		"apis/apps/v1/namespaces/n/replicasets/r": path(Resource{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet"}, "n", "r"),
		"api/v1/nodes/a":                          path(Resource{pods.GroupVersion().WithResource("nodes"), "Node"}, "", "a"),
	} {
		if strings.Join(got, "/") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
