package mutating

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// maxTargets is the maximum number of resources that one evaluation may change.
const maxTargets = 10_000

// find reads the targets from the API server; an expression only identifies them.
func (x *existing) find(c *policy.Call, allowed run.Exceptions, bare bool) (out []found, err error) {
	operation := c.Request.Operation
	if bare {
		operation = policy.Update
	}
	if x.expression == nil {
		out, err = x.list(c, operation)
	} else {
		out, err = x.evaluated(c, operation, allowed)
	}
	if err != nil {
		err = fmt.Errorf("failed to fetch targets: %s", celpolicy.Text(err))
	}
	return out, err
}

// list lists the resources that the constraints select.
func (x *existing) list(c *policy.Call, operation policy.Operation) (out []found, err error) {
	if c.World.Kinds.Served == nil || c.World.Lists == nil {
		return nil, fmt.Errorf("lists of resources are %w", world.ErrUnavailable)
	}
	seen := map[string]bool{}
	for _, t := range x.constraints.Targets() {
		resources, err := c.World.Kinds.Served(c.Context(), world.ResourceRequest{Group: t.Group, Version: t.Version, Plural: t.Resource})
		if err != nil {
			return nil, err
		}
		for _, r := range resources {
			q := world.Query{APIVersion: r.APIVersion, Kind: r.Kind.Kind, Namespace: c.Program.Namespace}
			if len(t.Names) == 1 {
				q.Name = t.Names[0]
			}
			objects, err := c.World.Lists(c.Context(), q)
			if world.NoList(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if err := c.Meter.Step(len(objects)); err != nil {
				return nil, err
			}
			for _, object := range objects {
				f, ok, err := x.selected(c, operation, object, r, []string{t.Subresource})
				if err != nil {
					return nil, err
				}
				key := t.Subresource + " of " + world.ObjectID(r.Kind, object)
				if !ok || seen[key] {
					continue
				}
				if seen[key] = true; len(out) == maxTargets {
					return nil, fmt.Errorf("the constraints select more than %d resources", maxTargets)
				}
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// selected reports whether the constraints select an object, either itself or one of its subresources. Objects that the
// resourceFilters exclude are not targets.
func (x *existing) selected(c *policy.Call, operation policy.Operation, object map[string]any, r world.Resource, subresources []string) (f found, ok bool, err error) {
	if metadata, _ := object["metadata"].(map[string]any); c.Program.Namespace != "" && metadata["namespace"] != c.Program.Namespace {
		return f, false, nil
	}
	for _, sub := range subresources {
		request := requestFor(c, operation, object)
		request.GVK = schema.FromAPIVersionAndKind(r.APIVersion, r.Kind.Kind)
		request.RequestGVK, request.Subresource = request.GVK, sub
		request.GVR = request.GVK.GroupVersion().WithResource(r.Plural)
		if request.Conf.Filtered(request.GVK, sub, request.Namespace, request.Name) {
			continue
		}
		if ok, err = x.constraints.Match(c.Context(), request); ok || err != nil {
			return found{object, request}, ok, err
		}
	}
	return f, false, nil
}

// evaluated reads the resources that the expression identifies: one, or the items of a list.
func (x *existing) evaluated(c *policy.Call, operation policy.Operation, allowed run.Exceptions) (out []found, err error) {
	in, err := input(c)
	if err != nil {
		return nil, err
	}
	in.Exceptions = allowed
	v, err := x.subject.Rule.Begin(c.Context(), c.Meter, in).Evaluate(x.expression)
	if err != nil {
		return nil, err
	}
	plain, err := values.Plain(v)
	if err != nil {
		return nil, err
	}
	given, err := objectsOf(plain)
	if err != nil {
		return nil, err
	}
	if len(given) > maxTargets {
		return nil, fmt.Errorf("the expression returns %d resources, more than %d", len(given), maxTargets)
	}
	if c.World.Kinds.Resource == nil || c.World.Objects == nil {
		return nil, fmt.Errorf("reading resources is %w", world.ErrUnavailable)
	}
	var subresources []string
	for _, t := range x.constraints.Targets() {
		if t.Subresource == "*" {
			t.Subresource = ""
		}
		subresources = append(subresources, t.Subresource)
	}
	for _, object := range given {
		metadata, _ := object["metadata"].(map[string]any)
		text := func(m map[string]any, field string) string { s, _ := m[field].(string); return s }
		r := world.Resource{Kind: world.Kind{APIVersion: text(object, "apiVersion"), Kind: text(object, "kind")}}
		if r.Plural, err = c.World.Kinds.Resource(c.Context(), r.Kind); err != nil {
			return nil, err
		}
		live, err := c.World.Objects.Get(c.Context(), r.APIVersion, r.Kind.Kind, text(metadata, "namespace"), text(metadata, "name"))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := c.Meter.Text(live); err != nil {
			return nil, err
		}
		f, ok, err := x.selected(c, operation, live, r, subresources)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, f)
		}
	}
	return out, nil
}

// objectsOf returns the objects in a value: the value itself, its items, or none.
func objectsOf(v any) ([]map[string]any, error) {
	if v == nil {
		return nil, nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the expression returns %s; want a resource, or an object with items", value.TypeName(v))
	}
	items, isList := object["items"].([]any)
	if !isList {
		return []map[string]any{object}, nil
	}
	var out []map[string]any
	for _, i := range items {
		item, ok := i.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the items of the expression contain %s; want resources", value.TypeName(i))
		}
		out = append(out, item)
	}
	return out, nil
}
