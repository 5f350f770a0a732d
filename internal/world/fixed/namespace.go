package fixed

import (
	"context"
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/world"
)

// Namespace implements world.NamespaceObjects: it returns the Namespace of the simulated cluster, with the labels that were given for
// it; nil if nothing is known about it.
func (n namespaces) Namespace(_ context.Context, name string) (map[string]any, error) {
	if !n.every && !n.reach.Allows(name) {
		return nil, fmt.Errorf("namespace %s is out of the policy's reach: %w", name, world.ErrUnavailable)
	}
	labels, known := n.labels[name]
	out := map[string]any{}
	if n.given != nil {
		o, err := n.given.get("v1", "Namespace", "", name)
		switch {
		case err == nil:
			out, known = maps.Clone(o), true
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	if !known {
		return nil, nil
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

// scopes returns the scope of kinds: a kind of given parameters is namespaced if the parameters are; all others count as cluster-scoped.
// Kyverno's command line does the same without a cluster: parameters in a namespace are then an error of the rule.
type scopes struct {
	namespaced func() (map[string]bool, error) // by apiVersion and kind
}

func newScopes(parameters func() ([]map[string]any, error)) scopes {
	return scopes{sync.OnceValues(func() (map[string]bool, error) {
		if parameters == nil {
			return nil, nil
		}
		objects, err := parameters()
		out := map[string]bool{}
		for _, o := range objects {
			if namespaceOf(o) != "" {
				out[text(o["apiVersion"])+" "+text(o["kind"])] = true
			}
		}
		return out, err
	})}
}

// Namespaced implements world.Kinds.
func (s scopes) Namespaced(_ context.Context, apiVersion, kind string) (bool, error) {
	known, err := s.namespaced()
	return known[apiVersion+" "+kind], err
}

var _ world.NamespaceObjects = namespaces{}
