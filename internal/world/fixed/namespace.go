package fixed

import (
	"context"
	"maps"

	"github.com/ephor-dev/ephor/internal/world"
)

// Namespace implements world.NamespaceObjects: the Namespace of the made-up cluster, with the labels that were given for
// it; one that nobody described has nothing but its name.
func (n namespaces) Namespace(ctx context.Context, name string) (map[string]any, error) {
	labels, err := n.Labels(ctx, name)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if n.given != nil {
		if o, err := n.given.get("v1", "Namespace", "", name); err == nil {
			out = maps.Clone(o)
		}
	}
	meta := maps.Clone(metadata(out))
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = name
	if len(labels) > 0 {
		merged := map[string]any{}
		if own, ok := meta["labels"].(map[string]any); ok {
			maps.Copy(merged, own)
		}
		for k, v := range labels {
			merged[k] = v
		}
		meta["labels"] = merged
	}
	out["metadata"] = meta
	return out, nil
}

// scopeless takes every kind of parameters for cluster-scoped, as the reference command line does where no cluster can
// be asked: parameters in a namespace are an error of the rule there.
type scopeless struct{}

func (scopeless) Namespaced(context.Context, string, string) (bool, error) { return false, nil }

var _ world.NamespaceObjects = namespaces{}
