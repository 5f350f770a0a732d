package fixed

import (
	"context"
	"fmt"
	"strings"

	kyvernov2beta1 "github.com/ephor-dev/ephor/api/kyverno/v2beta1"
	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/jmespath"
	"github.com/ephor-dev/ephor/internal/strict"
)

// IsGlobalContextEntry reports whether the object describes global data: it belongs to the world, and is not to be
// judged itself.
func IsGlobalContextEntry(o map[string]any) bool {
	return text(o["kind"]) == "GlobalContextEntry" && strings.HasPrefix(text(o["apiVersion"]), "kyverno.io/")
}

// globals are the GlobalContextEntries among the objects of a cluster, filled from its other objects.
type globals struct{ cluster *cluster }

// Global implements world.Globals.
func (g globals) Global(ctx context.Context, name string) (any, error) {
	if err := g.cluster.fill(); err != nil {
		return nil, err
	}
	entry, projection, _ := strings.Cut(name, ".")
	for _, version := range []string{"v2beta1", "v2", "v2alpha1"} {
		for _, o := range g.cluster.kinds["kyverno.io/"+version+" GlobalContextEntry"] {
			if nameOf(o) == entry {
				return g.data(ctx, o, projection)
			}
		}
	}
	return nil, fmt.Errorf("there is no GlobalContextEntry %q among the given resources", entry)
}

func (g globals) data(ctx context.Context, o map[string]any, projection string) (any, error) {
	var entry kyvernov2beta1.GlobalContextEntry
	if diags := strict.Decode(o, &entry); diags.HasErrors() {
		return nil, diags
	}
	r := entry.Spec.KubernetesResource
	if r == nil {
		return nil, fmt.Errorf("the GlobalContextEntry %s asks an API, which is not there", entry.Name)
	}
	apiVersion := r.Version
	if r.Group != "" {
		apiVersion = r.Group + "/" + r.Version
	}
	var data any = g.cluster.list(apiVersion, g.cluster.plurals[apiVersion+" "+r.Resource], r.Namespace, func(map[string]any) bool { return true })
	if projection == "" {
		return data, nil
	}
	for _, p := range entry.Spec.Projections {
		if p.Name != projection {
			continue
		}
		query, err := jmespath.Compile(p.JMESPath)
		if err != nil {
			return nil, fmt.Errorf("projection %s: %w", projection, err)
		}
		return query.Search(&jmespath.Env{Meter: budget.New(ctx, budget.DefaultSteps, budget.DefaultBytes)}, data)
	}
	return nil, fmt.Errorf("the GlobalContextEntry %s has no projection %s", entry.Name, projection)
}
