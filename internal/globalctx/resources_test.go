package globalctx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"ephor.invalid/ephor/internal/globalentry"
)

func resource(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"namespace": namespace, "name": name, "managedFields": []any{map[string]any{"manager": "somebody"}},
	}}}
}

// newWatched returns resources as the reflector uses them, the number of reported changes, and the reported failures.
func newWatched(max int) (w *watched, changes *int, failure *string) {
	changes, failure = new(int), new(string)
	p := &publisher{
		first: make(chan struct{}), now: func() time.Time { return time.Unix(1000, 0) },
		changed: func() { *changes++ }, failed: func(err error) { *failure = err.Error() },
	}
	return &watched{capacity: &capacity{max: max}, publisher: p, log: slog.New(slog.DiscardHandler)}, changes, failure
}

// objects returns objects as a list has them.
func objects(w *watched, of ...*unstructured.Unstructured) (out []object) {
	for _, u := range of {
		out = append(out, w.object(u))
	}
	return out
}

func names(t *testing.T, d *data) string {
	t.Helper()
	v, err := d.read(t.Context(), &globalentry.Entry{Name: "e"}, "")
	if err != nil {
		return "error: " + err.Error()
	}
	var out []string
	for _, o := range v.([]any) {
		u := unstructured.Unstructured{Object: o.(map[string]any)}
		if u.GetManagedFields() != nil {
			t.Error("managed fields are kept")
		}
		out = append(out, u.GetNamespace()+"/"+u.GetName())
	}
	return strings.Join(out, " ")
}

func TestResourcesFollow(t *testing.T) {
	w, changes, _ := newWatched(1 << 20)
	if got := names(t, w.data()); got != "error: it has not been fetched yet" {
		t.Error(got)
	}
	if err := w.update(w.object(resource("a", "early"))); err == nil {
		t.Error("an event before the list was taken")
	}
	if err := w.replace(objects(w, resource("b", "x"), resource("a", "y"))); err != nil {
		t.Fatal(err)
	}
	first := w.data()
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, "a/y b/x"},
		{func() error { return w.update(w.object(resource("a", "z"))) }, "a/y a/z b/x"},
		{func() error { return w.update(w.object(resource("a", "y"))) }, "a/y a/z b/x"},
		{func() error { w.remove(w.object(resource("b", "x"))); return nil }, "a/y a/z"},
		{func() error { w.remove(w.object(resource("b", "x"))); return nil }, "a/y a/z"},
	} {
		if err := step.do(); err != nil {
			t.Error(err)
		}
		if got := names(t, w.data()); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
	}
	if got := names(t, first); got != "a/y b/x" {
		t.Error("data that a reader holds changed: ", got)
	}
	if *changes != 1 {
		t.Errorf("%d changes of the state, want 1: events change only the data", *changes)
	}
	if w.capacity.used != w.held || w.held == 0 {
		t.Errorf("%d of %d bytes are counted", w.capacity.used, w.held)
	}
	if err := w.replace(nil); err != nil || w.capacity.used != 0 {
		t.Error(err, w.capacity.used)
	}
	if got := names(t, w.data()); got != "" {
		t.Error(got)
	}
}

// An entry's error names the resources that may not be listed.
func TestResourcesThatMayNotBeListed(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}: "LeaseList",
	})
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "", errors.New("no"))
	})
	failed := make(chan string, 1)
	p := &publisher{first: make(chan struct{}), now: time.Now, changed: func() {}, failed: func(err error) { failed <- err.Error() }}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := watchResources(&Store{Options: Options{Resources: client, Log: slog.New(slog.DiscardHandler)}, capacity: &capacity{max: 100}},
		&globalentry.Resource{APIVersion: "coordination.k8s.io/v1", Resource: "leases"}, p)
	go func() { _ = w.Start(ctx, nil)() }()
	const want = `permission denied: failed to list coordination.k8s.io/v1 leases: leases.coordination.k8s.io is forbidden: no`
	if got := <-failed; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Resources that exceed the capacity are released at once and become an error: a partial list would count as complete.
func TestResourcesAreBounded(t *testing.T) {
	w, _, failure := newWatched(200)
	if err := w.replace(objects(w, resource("a", "x"), resource("a", "y"))); err != nil {
		t.Fatal(err)
	}
	unread := w.data()
	var err error
	for i := 0; err == nil && i < 10; i++ {
		err = w.update(w.object(resource("a", fmt.Sprint(i))))
	}
	const want = "the resources of all entries would take more than 200 bytes, the limit of --maxGlobalContextBytes"
	if err == nil || err.Error() != want || *failure != want {
		t.Errorf("%v, %q", err, *failure)
	}
	if got := names(t, w.data()); got != "error: "+want {
		t.Error(got)
	}
	if got := names(t, unread); got != "error: the resources are being listed again" {
		t.Error("data that nobody had read: ", got)
	}
	if err := w.update(w.object(resource("a", "late"))); err == nil || w.capacity.used != 0 {
		t.Error("objects are taken after the end: ", err, w.capacity.used)
	}
	if err := w.replace(objects(w, resource("a", strings.Repeat("x", 300)))); err == nil || w.capacity.used != 0 {
		t.Error(err, w.capacity.used)
	}
	if err := w.replace(objects(w, resource("a", "x"))); err != nil {
		t.Error(err)
	}
	if got := names(t, w.data()); got != "a/x" {
		t.Error("there is room again: ", got)
	}
}
