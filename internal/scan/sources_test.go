package scan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/world"
)

// fakeObjects are the versions of objects by name; one of them may be unreachable.
type fakeObjects map[string]string

func (f fakeObjects) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	switch version, there := f[r.Name]; {
	case version == "unreachable":
		return nil, errors.New("no answer")
	case !there:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, r.Name)
	default:
		return map[string]any{"metadata": map[string]any{"resourceVersion": version}}, nil
	}
}

// Only sources that policies looked up are checked again.
func TestSources(t *testing.T) {
	objects := fakeObjects{"a": "1", "b": "1"}
	var global any = map[string]any{"x": int64(1)}
	now := time.Unix(0, 0)
	s := &sources{log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }, keep: 2 * time.Hour, seen: map[source]*content{}, world: world.RootFunc(func(world.Reach) world.World {
		return world.World{Objects: objects.Get, Globals: world.Globals(func(context.Context, world.GlobalRequest) (any, error) { return global, nil })}
	})}
	changed := func(what string, want bool) {
		t.Helper()
		if got := s.changed(t.Context()); got != want {
			t.Errorf("%s: changed is %v, want %v", what, got, want)
		}
	}
	changed("nothing was looked up", false)
	w := s.root().For(world.Cluster())
	for _, name := range []string{"a", "none"} {
		_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "ns", name)
	}
	_, _ = w.Globals(t.Context(), "g")
	changed("nothing", false)
	objects["b"] = "2"
	changed("an object that nobody looked up", false)
	objects["a"] = "2"
	changed("an object", true)
	changed("the same again", false)
	objects["a"] = "unreachable"
	changed("an object that cannot be read", false)
	objects["a"] = "2"
	objects["none"] = "3"
	changed("an object that was not there", true)
	delete(objects, "none")
	changed("an object that is gone", true)
	global = map[string]any{"x": int64(2)}
	changed("data", true)
	changed("the same data", false)
	before := global
	for name, change := range map[string]func(){"data": func() { global = map[string]any{"x": int64(3)} }, "an object": func() { objects["a"] = "3" }} {
		change()
		_, _ = w.Globals(t.Context(), "g")
		_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "ns", "a")
		global, objects["a"] = before, "2"
		changed(name+" that changed and changed back, and was looked up meanwhile", true)
		changed("nothing since", false)
	}
	for i := range maxSources {
		_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "ns", fmt.Sprint("none", i))
	}
	now = now.Add(time.Hour)
	_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "ns", "a")
	now = now.Add(90 * time.Minute)
	changed("nothing, two hours later", false)
	if len(s.seen) != 1 {
		t.Errorf("%d objects are remembered, of which one was looked up lately", len(s.seen))
	}
	_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "ns", "b")
	objects["b"] = "3"
	changed("an object for which there is room again", true)
}
