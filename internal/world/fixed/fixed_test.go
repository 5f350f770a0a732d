package fixed

import (
	"errors"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/world"
)

func TestNamespaceLabels(t *testing.T) {
	root := New(Values{NamespaceLabels: map[string]map[string]string{"a": {"tier": "gold"}}})
	w := root.For(world.Cluster())
	got, err := w.Namespaces.Labels(t.Context(), "a")
	if err != nil || got["tier"] != "gold" {
		t.Errorf("labels of a: %v, %v", got, err)
	}
	got, err = w.Namespaces.Labels(t.Context(), "unknown")
	if err != nil || len(got) != 0 {
		t.Errorf("labels of a namespace that nobody described: %v, %v; want none", got, err)
	}
}

// A namespaced policy sees only its own namespace.
func TestReach(t *testing.T) {
	root := New(Values{NamespaceLabels: map[string]map[string]string{"a": {"x": "1"}, "b": {"x": "2"}}})
	w := root.For(world.InNamespace("b"))
	var out *world.OutOfReachError
	if _, err := w.Namespaces.Labels(t.Context(), "a"); !errors.As(err, &out) {
		t.Errorf("reading another namespace: %v", err)
	}
	if got, err := w.Namespaces.Labels(t.Context(), "b"); err != nil || got["x"] != "2" {
		t.Errorf("own namespace: %v, %v", got, err)
	}
	if _, err := root.For(world.Reach{}).Namespaces.Labels(t.Context(), "a"); err == nil {
		t.Error("the zero Reach reached something")
	}
}

func TestClockAndRandom(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	root := New(Values{Now: func() time.Time { return at }, Seed: 7})
	one, two := root.For(world.Cluster()), root.For(world.Cluster())
	if !one.Clock.Now().Equal(at) {
		t.Errorf("clock %v", one.Clock.Now())
	}
	for range 20 {
		a, b := one.Rand.Intn(1000), two.Rand.Intn(1000)
		if a != b || a < 0 || a >= 1000 {
			t.Fatalf("seeded numbers differ: %d and %d", a, b)
		}
	}
	if d := time.Since(New(Values{}).For(world.Cluster()).Clock.Now()); d < 0 || d > time.Minute {
		t.Errorf("the machine's clock is off by %v", d)
	}
}
