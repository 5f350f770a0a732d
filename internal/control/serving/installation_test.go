package serving

import (
	"context"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/intake"
)

// The deletion of our namespace is noticed, also if the watch missed it and its begin.
func TestDeletionsOfOurNamespace(t *testing.T) {
	fired := 0
	i := &Installation{Namespace: "kyverno", Leaving: &controller.Signal{}}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	i.Leaving.Start(ctx, func(string) { fired++ })
	ours, other := intake.NamespaceObject(), intake.NamespaceObject()
	ours.SetName("kyverno")
	other.SetName("other")
	h := i.Handler()
	h.OnAdd(ours, true)
	h.OnUpdate(ours, ours)
	h.OnDelete(other)
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: other})
	if fired != 0 {
		t.Errorf("fired %d times without a deletion of our namespace", fired)
	}
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: ours})
	if fired != 1 {
		t.Errorf("fired %d times after a deletion that the watch missed, want once", fired)
	}
}
