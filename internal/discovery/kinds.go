package discovery

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Kinds has the lookups of kinds of package world.
type Kinds struct{ Resources Resources }

// World returns the lookups of package world.
func (k Kinds) World() world.Kinds {
	return world.Kinds{Namespaced: k.Namespaced, Find: k.Find, Resource: k.Resource, Served: k.Served}
}

// find finds resources, within the time of a lookup where that is possible.
func (k Kinds) find(ctx context.Context, t policy.Target) ([]Resource, error) {
	if r, ok := k.Resources.(interface {
		FindWithin(context.Context, policy.Target) ([]Resource, error)
	}); ok {
		return r.FindWithin(ctx, t)
	}
	return k.Resources.Find(t)
}

// Namespaced reports whether objects of a kind are namespaced.
func (k Kinds) Namespaced(ctx context.Context, asked world.Kind) (bool, error) {
	gv, err := schema.ParseGroupVersion(asked.APIVersion)
	if err != nil {
		return false, err
	}
	found, err := k.find(ctx, policy.Target{Group: gv.Group, Version: gv.Version, Kind: asked.Kind})
	if err != nil {
		return false, err
	}
	for _, r := range found {
		if r.Kind == asked.Kind {
			return r.Namespaced, nil
		}
	}
	return false, &world.NoKindError{APIVersion: asked.APIVersion, Kind: asked.Kind}
}

// Resource returns the plural name of a kind.
func (k Kinds) Resource(ctx context.Context, asked world.Kind) (string, error) {
	gv, err := schema.ParseGroupVersion(asked.APIVersion)
	if err != nil {
		return "", err
	}
	found, err := k.find(ctx, policy.Target{Group: gv.Group, Version: gv.Version, Kind: asked.Kind})
	if err != nil {
		return "", err
	}
	for _, r := range found {
		if r.Kind == asked.Kind && r.Subresource == "" {
			return r.Resource, nil
		}
	}
	return "", &world.NoKindError{APIVersion: asked.APIVersion, Kind: asked.Kind}
}

// Served returns the resources that are selected.
func (k Kinds) Served(ctx context.Context, r world.ResourceRequest) ([]world.Resource, error) {
	found, err := k.find(ctx, policy.Target{Group: r.Group, Version: r.Version, Resource: r.Plural})
	if err != nil {
		return nil, err
	}
	var out []world.Resource
	for _, r := range OneVersion(Main(found)) {
		gvk := r.GVK()
		out = append(out, world.Resource{Kind: world.Kind{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Plural: r.Resource})
	}
	return out, nil
}

// Find returns the kinds that the wildcards match.
func (k Kinds) Find(ctx context.Context, asked world.Kind) ([]world.Kind, error) {
	found, err := k.find(ctx, policy.KindTarget(asked.APIVersion, asked.Kind))
	if err != nil {
		return nil, err
	}
	var out []world.Kind
	for _, gvk := range KindsOf(found) {
		out = append(out, world.Kind{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind})
	}
	return out, nil
}

// KindsOf returns the kinds of the main resources in found, each in one version.
func KindsOf(found []Resource) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	seen := map[schema.GroupKind]bool{}
	for _, r := range OneVersion(Main(found)) {
		if gvk := r.GVK(); !seen[gvk.GroupKind()] {
			seen[gvk.GroupKind()] = true
			out = append(out, gvk)
		}
	}
	return out
}
