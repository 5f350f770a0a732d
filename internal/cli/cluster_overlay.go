package cli

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ephor-dev/ephor/internal/world"
)

// overlay is a cluster with the objects of files beside its own: those of the files win.
type overlay struct{ given, cluster world.Root }

// For implements world.Root.
func (b overlay) For(r world.Reach) world.World {
	w := b.cluster.For(r)
	given := b.given.For(r)
	both := both{given: given, cluster: w}
	w.Objects, w.Lists = both, both
	return w
}

// both reads from files and from a cluster.
type both struct{ given, cluster world.World }

// Get implements world.Objects.
func (b both) Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	o, err := b.given.Objects.Get(ctx, apiVersion, kind, namespace, name)
	if apierrors.IsNotFound(err) {
		return b.cluster.Objects.Get(ctx, apiVersion, kind, namespace, name)
	}
	return o, err
}

// List implements world.Lists.
func (b both) List(ctx context.Context, q world.Query) ([]map[string]any, error) {
	out, err := b.given.Lists.List(ctx, q)
	if err != nil {
		return nil, err
	}
	more, err := b.cluster.Lists.List(ctx, q)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, o := range out {
		known[newTestObject(o).key()] = true
	}
	return append(slices.Clip(out), slices.DeleteFunc(more, func(o map[string]any) bool { return known[newTestObject(o).key()] })...), nil
}

// Find implements world.KindFinder.
func (b both) Find(ctx context.Context, apiVersion, kind string) ([]world.Kind, error) {
	finder, ok := b.cluster.Lists.(world.KindFinder)
	if !ok {
		return nil, world.ErrUnavailable
	}
	return finder.Find(ctx, apiVersion, kind)
}
