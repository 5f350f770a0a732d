package rule_test

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// cluster is the World of a request: the objects in its key `cluster`, or none.
type cluster []any

func clusterOf(in map[string]any) world.World {
	objects, ok := in["cluster"].([]any)
	if !ok {
		return world.World{}
	}
	return world.World{Objects: cluster(objects).Get, Lists: cluster(objects).List}
}

func (c cluster) find(apiVersion, kind, namespace string, keep func(name string, labels labels.Set) bool) []map[string]any {
	var out []map[string]any
	for _, e := range c {
		o := e.(map[string]any)
		metadata := o["metadata"].(map[string]any)
		set := labels.Set{}
		if l, ok := metadata["labels"].(map[string]any); ok {
			for k, v := range l {
				set[k] = v.(string)
			}
		}
		ns, _ := metadata["namespace"].(string)
		if o["apiVersion"] == apiVersion && o["kind"] == kind && ns == namespace && keep(metadata["name"].(string), set) {
			out = append(out, o)
		}
	}
	return out
}

func (c cluster) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	found := c.find(r.APIVersion, r.Kind.Kind, r.Namespace, func(n string, _ labels.Set) bool { return n == r.Name })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s %q not found", strings.ToLower(r.Kind.Kind), r.Name)
	}
	return found[0], nil
}

func (c cluster) List(_ context.Context, q world.Query) ([]map[string]any, error) {
	parsed, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, err
	}
	return c.find(q.APIVersion, q.Kind, q.Namespace, func(n string, set labels.Set) bool { return parsed.Matches(set) && (q.Name == "" || n == q.Name) }), nil
}

// workText returns deferred work as text, one line each.
func workText(work []policy.Work) string {
	var b strings.Builder
	for _, w := range work {
		fmt.Fprintf(&b, "\n  %s", w.Kind)
		if w.Synchronize {
			b.WriteString(" and synchronize")
		}
		if !w.SkipBackground {
			b.WriteString(" for everybody")
		}
		for _, g := range w.Generated {
			fmt.Fprintf(&b, "\n    %s", value.JSON(g.Object))
			if g.Source != nil {
				fmt.Fprintf(&b, " copied from %s %s %s/%s", g.Source.APIVersion, g.Source.Kind, g.Source.Namespace, g.Source.Name)
			}
		}
		if w.Err != nil {
			fmt.Fprintf(&b, "\n    error: %v", w.Err)
		}
	}
	return b.String()
}
