package fixed

import (
	"context"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/world"
)

// IsGlobalContextEntry reports whether the object describes global data: it belongs to the world, and is not evaluated itself.
func IsGlobalContextEntry(o map[string]any) bool {
	return globalentry.Owns(text(o["apiVersion"]), text(o["kind"]))
}

// globals are the GlobalContextEntries among the objects of a cluster, with data from its other objects.
type globals struct{ cluster *cluster }

// read is world.Globals.
func (g globals) read(ctx context.Context, name world.GlobalRequest) (any, error) {
	if err := g.cluster.fill(); err != nil {
		return nil, err
	}
	entry, projection, _ := strings.Cut(string(name), ".")
	for _, version := range globalentry.Versions {
		for _, o := range g.cluster.kinds[globalentry.Group+"/"+version+" "+globalentry.Kind] {
			if nameOf(o) == entry {
				return g.data(ctx, o, projection)
			}
		}
	}
	return nil, &world.NoGlobalError{Message: fmt.Sprintf("there is no GlobalContextEntry %q among the given resources", entry)}
}

func (g globals) data(ctx context.Context, o map[string]any, projection string) (any, error) {
	entry, _ := globalentry.Compile(o)
	var data any
	switch r := entry.Resource; {
	case r != nil:
		key := r.APIVersion + " " + r.Resource
		data = g.cluster.list(r.APIVersion, g.cluster.plurals[key], r.Namespace, func(map[string]any) bool { return true })
	case entry.Call != nil && !entry.Diags.HasErrors():
		return nil, fmt.Errorf("the GlobalContextEntry %s asks an API, which is not there", entry.Name)
	}
	return entry.Project(ctx, projection, data)
}
