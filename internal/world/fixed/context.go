package fixed

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/world"
)

// contextResources serves the resources of a context file to functions of CEL policies. As on Kyverno's command line, they differ from
// the simulated cluster: a list of a resource without objects is an error, label selectors are ignored, and a list without a namespace
// returns cluster-scoped objects.
type contextResources struct{ *cluster }

// call is world.API.
func (c contextResources) call(_ context.Context, r world.APIRequest) (any, error) {
	p := r.Path
	if r.Method != world.GET || p.Resource == "" {
		return nil, fmt.Errorf("without a cluster resources can only be read: %w", world.ErrUnavailable)
	}
	if err := c.fill(); err != nil {
		return nil, err
	}
	kinds := c.plurals[p.APIVersion()+" "+p.Resource]
	if p.Name != "" {
		for _, kind := range kinds {
			if o, err := c.get(p.APIVersion(), kind, p.Namespace, p.Name); err == nil && len(p.Subresource) == 0 {
				return o, nil
			}
		}
		return nil, &NotFoundError{resourceName(p.APIVersion(), p.Resource), p.Name}
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("%s resource not found", p.Resource)
	}
	items := c.list(p.APIVersion(), kinds, "", func(o map[string]any) bool { return namespaceOf(o) == p.Namespace })
	return map[string]any{"apiVersion": p.APIVersion(), "kind": kinds[0] + "List", "items": items}, nil
}
