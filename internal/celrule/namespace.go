package celrule

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// namespaceOf is namespaceObject with Kyverno's error text.
func (o Options) namespaceOf(c *policy.Call) (any, error) {
	ns, err := o.namespaceObject(c)
	if err != nil {
		return nil, fmt.Errorf("Error getting the resource's namespace: %w", err) //nolint:staticcheck // Kyverno's words
	}
	return ns, nil
}

// namespaceObject returns the Namespace of the object; null for cluster-scoped objects, and for a Namespace unless it is its own
// (OwnNamespace). If Namespaces cannot be read, it has the known name and labels.
func (o Options) namespaceObject(c *policy.Call) (any, error) {
	r := c.Request
	if o.OwnNamespace && r.IsNamespace() {
		object, err := r.Subject()
		if err != nil || object == nil {
			return nil, err
		}
		return exposed(object), nil
	}
	if r.Namespace == "" || r.IsNamespace() {
		return nil, nil
	}
	ctx := c.Context()
	if read := c.World.Namespaces.Object; read != nil {
		found, err := read(ctx, world.NamespaceRequest(r.Namespace))
		switch {
		case err != nil:
			return nil, err
		case found == nil && o.EmptyObjects:
			return nil, nil
		case found == nil:
			return map[string]any{"metadata": map[string]any{"name": r.Namespace}}, nil
		}
		return exposed(found), nil
	}
	labels, err := namespaceLabels(ctx, c)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{"name": r.Namespace}
	if len(labels) > 0 {
		set := make(map[string]any, len(labels))
		for k, v := range labels {
			set[k] = v
		}
		metadata["labels"] = set
	}
	return map[string]any{"metadata": metadata}, nil
}

func namespaceLabels(ctx context.Context, c *policy.Call) (map[string]string, error) {
	if c.Request.ResolveNamespace != nil {
		return c.Request.NamespaceLabels(ctx)
	}
	if read := c.World.Namespaces.Labels; read != nil {
		return read(ctx, world.NamespaceRequest(c.Request.Namespace))
	}
	return nil, world.ErrUnavailable
}

// exposed returns a Namespace without the fields that the API server hides from expressions.
func exposed(ns map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"metadata", "spec", "status"} {
		if v, ok := ns[k]; ok {
			out[k] = v
		}
	}
	if metadata, ok := out["metadata"].(map[string]any); ok {
		kept := make(map[string]any, len(metadata))
		for k, v := range metadata {
			if k != "managedFields" && k != "ownerReferences" {
				kept[k] = v
			}
		}
		out["metadata"] = kept
	}
	return out
}
