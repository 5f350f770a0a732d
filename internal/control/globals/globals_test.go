package globals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/world"
)

// recorded stores events.
type recorded chan event.Event

func (r recorded) Record(e event.Event) { r <- e }

func TestGlobalsFollowEvents(t *testing.T) {
	calls := make(chan string, 10)
	api := world.API(func(_ context.Context, r world.APIRequest) (any, error) {
		calls <- r.Path.String()
		return r.Path.String(), nil
	})
	events := make(recorded, 10)
	g, err := New(&rest.Config{Host: "https://127.0.0.1:1"}, Flags{maxBytes: 1000}, api, nil, events, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go controller.RunRows(t.Context(), []controller.Row{g.Data()}, slog.New(slog.DiscardHandler), nil)
	h := g.Watches()[0].Handler
	object := func(uid, spec string, generation int64) *unstructured.Unstructured {
		var u unstructured.Unstructured
		text := fmt.Sprintf(`{apiVersion: kyverno.io/v2beta1, kind: GlobalContextEntry, metadata: {name: e, uid: %s}, spec: %s}`, uid, spec)
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetGeneration(generation)
		return &u
	}
	expect := func(what, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		g.Store.Settle(ctx)
		v, err := g.Store.Global(ctx, "e")
		got := fmt.Sprint(v)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	first := object("u", `{apiCall: {urlPath: /api/v1/pods}}`, 1)
	h.OnAdd(first, true)
	expect("added", "/api/v1/pods")
	h.OnUpdate(first, object("u", `{apiCall: {urlPath: /api/v1/pods}}`, 1)) // only the status changed
	h.OnUpdate(first, object("u", `{apiCall: {urlPath: /api/v1/nodes}}`, 2))
	expect("changed", "/api/v1/nodes")
	h.OnUpdate(first, object("other", `{apiCall: {urlPath: /api/v1/nodes}}`, 2))
	expect("made anew", "/api/v1/nodes")
	close(calls)
	var got []string
	for c := range calls {
		got = append(got, c)
	}
	if strings.Join(got, " ") != "/api/v1/pods /api/v1/nodes /api/v1/nodes" {
		t.Errorf("calls %q", got)
	}
	h.OnUpdate(first, object("other", `{apiCall: {}}`, 3))
	expect("with a mistake", "the GlobalContextEntry e has a mistake: An External API call should either have Service or URLPath")
	want := event.Event{
		Regarding: event.Reference{APIVersion: "kyverno.io/v2beta1", Kind: "GlobalContextEntry", Name: "e", UID: "other"},
		Type:      event.Warning, Reason: event.PolicyError, Action: event.Retrying, Controller: event.GlobalContextController,
		Note: "the GlobalContextEntry e has a mistake: An External API call should either have Service or URLPath",
	}
	if e := <-events; e != want || len(events) > 0 {
		t.Errorf("%+v", e)
	}
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: first})
	expect("deleted", "there is no GlobalContextEntry e")
}

// A round names each status that it could not write.
func TestEachStatusThatIsNotWrittenIsNamed(t *testing.T) {
	g, err := New(&rest.Config{Host: "https://127.0.0.1:1"}, Flags{maxBytes: 1000}, nil, nil, event.Discard, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/v2beta1, kind: GlobalContextEntry, metadata: {name: `+name+`}, spec: {}}`), &u.Object); err != nil {
			t.Fatal(err)
		}
		g.Watches()[0].Handler.OnAdd(&u, true)
	}
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("no right")
		},
	})
	_, err = g.Reconcile(&status.Writer{Client: c})(t.Context())
	if text := fmt.Sprint(err); !strings.Contains(text, "GlobalContextEntry /a: no right") || !strings.Contains(text, "GlobalContextEntry /b: no right") {
		t.Errorf("the round says %q", text)
	}
}

// Resources are read in smaller pages where they are large: any user may create ConfigMaps of a megabyte, and a page of 250 of them is more than
// the memory of the process.
func TestLargeResources(t *testing.T) {
	const all = 100
	large := strings.Repeat("x", 300<<10)
	var mu sync.Mutex
	limits := map[int]bool{} // of pages that were read as a whole
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("watch") != "" {
			<-r.Context().Done()
			return
		}
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		first, _ := strconv.Atoi(r.FormValue("continue"))
		var items []string
		for i := first; i < min(all, first+limit); i++ {
			items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d","namespace":"a"},"data":{"x":"%s"}}`, i, large))
		}
		next := ""
		if first+limit < all {
			next = strconv.Itoa(first + limit)
		}
		w.Header().Set("Content-Type", "application/json")
		_, err := fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"5","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
		mu.Lock()
		defer mu.Unlock()
		limits[limit] = limits[limit] || err == nil
	}))
	defer server.Close()
	g, err := New(&rest.Config{Host: server.URL}, Flags{maxBytes: 64 << 20}, nil, nil, make(recorded, 10), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.RunRows(ctx, []controller.Row{g.Data()}, slog.New(slog.DiscardHandler), nil)
	}()
	defer func() { stop(); <-ended }()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/v2beta1, kind: GlobalContextEntry, metadata: {name: e}, spec: {kubernetesResource: {version: v1, resource: configmaps}}}`), &u.Object); err != nil {
		t.Fatal(err)
	}
	g.Watches()[0].Handler.OnAdd(&u, true)
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	g.Store.Settle(within)
	v, err := g.Store.Global(within, "e")
	mu.Lock()
	defer mu.Unlock()
	if list, _ := v.([]any); len(list) != all || err != nil || limits[250] || len(limits) < 3 {
		t.Errorf("%d objects, %v, pages %v", len(list), err, limits)
	}
}
