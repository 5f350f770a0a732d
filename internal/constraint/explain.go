package constraint

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/trace"
)

// explain records the result of each part of the constraints for the request.
func (c *Constraints) explain(ctx context.Context, r *policy.Request) {
	note := func(field string, want, got any, holds bool, err error) {
		n := trace.Clause{Path: c.path + "." + field, Want: want, Got: got, Holds: holds}
		if err != nil {
			n.Error = err.Error()
		}
		r.Trace.Clause(n)
	}
	asked := strings.Join([]string{r.GVR.Group, r.GVR.Version, r.GVR.Resource}, "/")
	if r.Subresource != "" {
		asked += "/" + r.Subresource
	}
	asked = strings.TrimPrefix(asked, "/") + " " + string(r.Operation)
	if !c.everything {
		ok, err := anyOf(c.include, r)
		note("resourceRules", described(c.targets), asked, ok, err)
	}
	if len(c.exclude) > 0 {
		excluded, err := anyOf(c.exclude, r)
		note("excludeResourceRules", described(c.excludes), asked, !excluded, err)
	}
	object, _ := r.Subject()
	if c.object != nil {
		ok, err := c.selectsObject(ctx, r)
		note("objectSelector", c.object.String(), textOf(labelsOf(object)), ok, err)
	}
	if c.namespace != nil {
		ok, err := c.selectsNamespace(ctx, r)
		note("namespaceSelector", c.namespace.String(), r.Namespace, ok, err)
	}
}

// textOf returns labels in kubectl's notation.
func textOf(in decoded) string {
	out := labels.Set{}
	for key := range in {
		out[key] = in.Get(key)
	}
	return out.String()
}

// described returns targets in the usual notation of resources: apps/v1/deployments CREATE,UPDATE.
func described(targets []policy.Target) []string {
	out := make([]string, len(targets))
	for i := range targets {
		t := &targets[i]
		text := t.Version + "/" + t.Resource
		if t.Group != "" {
			text = t.Group + "/" + text
		}
		if t.Subresource != "" {
			text += "/" + t.Subresource
		}
		operations := make([]string, len(t.Operations))
		for j, o := range t.Operations {
			operations[j] = string(o)
		}
		if len(operations) > 0 {
			text += " " + strings.Join(operations, ",")
		}
		if len(t.Names) > 0 {
			text += " named " + strings.Join(t.Names, ",")
		}
		out[i] = text
	}
	return out
}
