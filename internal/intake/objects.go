package intake

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

// objects stores the last state of objects of some kinds, and reports new and changed ones.
type objects struct {
	log *slog.Logger
	// accept selects the relevant objects; nil for all. An object that is no longer relevant is treated as deleted.
	accept func(*unstructured.Unstructured) bool
	// take handles an object that is new or whose compiled form changed; old is nil for a new one.
	take func(old, now *unstructured.Unstructured) error
	// families describes the kinds of the objects; nil for Ephor's own.
	families *compile.Registry
	// same, if set, handles an object whose compiled form did not change.
	same func(*unstructured.Unstructured)
	// drop is called with the last state of a deleted object.
	drop func(last *unstructured.Unstructured)
	// seen is called after each event, even if nothing compiled changed, for example after another client changed the
	// status.
	seen func()

	mu  sync.Mutex
	all map[policy.ID]any // *unstructured.Unstructured or *Packed, shared with the cache
}

func idOf(u *unstructured.Unstructured) policy.ID {
	return policy.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// handler returns the handler for the informers of the kinds.
func (o *objects) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.set(obj) },
		UpdateFunc: func(_, obj any) { o.set(obj) },
		DeleteFunc: func(obj any) {
			if u := tree(Deleted(obj)); u != nil {
				o.remove(u)
			}
		},
	}
}

func (o *objects) set(obj any) {
	u := tree(obj)
	if u == nil {
		return
	}
	if o.accept != nil && !o.accept(u) {
		if o.get(idOf(u)) != nil {
			o.remove(u)
		}
		return
	}
	o.mu.Lock()
	before := o.all[idOf(u)]
	if o.all == nil {
		o.all = map[policy.ID]any{}
	}
	if p, ok := obj.(*Packed); ok {
		if same, ok := before.(*Packed); ok && same != p && same.text == p.text {
			p.text = same.text // compiled forms share it; nothing else reads the new object yet
		}
	}
	o.all[idOf(u)] = obj
	o.mu.Unlock()
	old := tree(before)
	defer o.seen()
	if old != nil && o.sameContent(old, u) {
		if o.same != nil {
			o.same(u)
		}
		return
	}
	if err := o.safely(u, func() error { return o.take(old, u) }); err != nil {
		o.log.Error("object cannot be used", "kind", u.GetKind(), "object", idOf(u).Key(), "error", err)
	}
}

func (o *objects) remove(u *unstructured.Unstructured) {
	o.mu.Lock()
	_, known := o.all[idOf(u)]
	delete(o.all, idOf(u))
	o.mu.Unlock()
	if known {
		o.drop(u)
	}
	o.seen()
}

// safely recovers from panics that an object causes.
func (o *objects) safely(u *unstructured.Unstructured, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the compiler panicked: %v", v)
			o.log.Error("the compiler panicked", "kind", u.GetKind(), "object", idOf(u).Key(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	return f()
}

func (o *objects) get(id policy.ID) *unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	return tree(o.all[id])
}

// source returns the source of a state of an object, for its compiled form; nil if the tree is the source, or if there is a newer state.
func (o *objects) source(u *unstructured.Unstructured) func() map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.all[idOf(u)].(*Packed); ok && p.ResourceVersion == u.GetResourceVersion() {
		return p.Object
	}
	return nil
}

func (o *objects) list() map[policy.ID]*unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[policy.ID]*unstructured.Unstructured, len(o.all))
	for id, obj := range o.all {
		out[id] = tree(obj)
	}
	return out
}

// sameContent reports whether both compile to the same result. Only one part of a status matters: whether the policy is
// handed over to the API server.
func (o *objects) sameContent(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && o.families.HandedOver(a.Object) == o.families.HandedOver(b.Object) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
