package discovery

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Kinds implements the lookups of kinds of package world.
type Kinds struct{ Resources Resources }

// find finds resources, within the time of a lookup where that is possible.
func (k Kinds) find(ctx context.Context, t policy.Target) ([]Resource, error) {
	if r, ok := k.Resources.(interface {
		FindWithin(context.Context, policy.Target) ([]Resource, error)
	}); ok {
		return r.FindWithin(ctx, t)
	}
	return k.Resources.Find(t)
}

// Namespaced implements world.Kinds.
func (k Kinds) Namespaced(ctx context.Context, apiVersion, kind string) (bool, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return false, err
	}
	found, err := k.find(ctx, policy.Target{Group: gv.Group, Version: gv.Version, Kind: kind})
	if err != nil {
		return false, err
	}
	for _, r := range found {
		if r.Kind == kind {
			return r.Namespaced, nil
		}
	}
	return false, &world.NoKindError{APIVersion: apiVersion, Kind: kind}
}

// Resource implements world.ResourceFinder.
func (k Kinds) Resource(ctx context.Context, apiVersion, kind string) (string, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "", err
	}
	found, err := k.find(ctx, policy.Target{Group: gv.Group, Version: gv.Version, Kind: kind})
	if err != nil {
		return "", err
	}
	for _, r := range found {
		if r.Kind == kind && r.Subresource == "" {
			return r.Resource, nil
		}
	}
	return "", &world.NoKindError{APIVersion: apiVersion, Kind: kind}
}

// Served implements world.ResourceKinds.
func (k Kinds) Served(ctx context.Context, group, version, plural string) ([]world.Resource, error) {
	found, err := k.find(ctx, policy.Target{Group: group, Version: version, Resource: plural})
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

// Find implements world.KindFinder.
func (k Kinds) Find(ctx context.Context, apiVersion, kind string) ([]world.Kind, error) {
	found, err := k.find(ctx, policy.KindTarget(apiVersion, kind))
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
