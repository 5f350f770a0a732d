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
	w.Objects, w.Lists = both.object, both.list
	return w
}

// both reads from files and from a cluster.
type both struct{ given, cluster world.World }

// object is world.Objects.
func (b both) object(ctx context.Context, r world.ObjectRequest) (map[string]any, error) {
	o, err := b.given.Objects(ctx, r)
	if apierrors.IsNotFound(err) {
		return b.cluster.Objects(ctx, r)
	}
	return o, err
}

// list is world.Lists.
func (b both) list(ctx context.Context, q world.Query) ([]map[string]any, error) {
	out, err := b.given.Lists(ctx, q)
	if err != nil {
		return nil, err
	}
	more, err := b.cluster.Lists(ctx, q)
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
