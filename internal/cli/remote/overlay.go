package remote

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/world"
)

// WithObjects returns the cluster with the given objects added to its own. A given object takes precedence.
func WithObjects(given, cluster world.Root) world.Root { return overlay{given, cluster} }

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
		known[identity(o)] = true
	}
	return append(slices.Clip(out), slices.DeleteFunc(more, func(o map[string]any) bool { return known[identity(o)] })...), nil
}

// identity returns a text with the group, kind, namespace and name of an object.
func identity(o map[string]any) string {
	u := unstructured.Unstructured{Object: o}
	return u.GroupVersionKind().GroupKind().String() + " " + u.GetNamespace() + " " + u.GetName()
}

// Find implements world.KindFinder.
func (b both) Find(ctx context.Context, apiVersion, kind string) ([]world.Kind, error) {
	finder, ok := b.cluster.Lists.(world.KindFinder)
	if !ok {
		return nil, world.ErrUnavailable
	}
	return finder.Find(ctx, apiVersion, kind)
}
