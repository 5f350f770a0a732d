package fixed

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/world"
)

// namespaces are the Namespaces of the simulated cluster, and labels that were given for namespaces.
type namespaces struct {
	labels map[string]map[string]string
	given  *cluster // nil without a simulated cluster
}

// labelsOf returns the labels of the namespace: those of the Namespace, and those that were given for it. They are nil if nothing is known
// about it.
func (n namespaces) labelsOf(ctx context.Context, name world.NamespaceRequest) (map[string]string, error) {
	o, err := n.object(ctx, name)
	if o == nil || err != nil {
		return nil, err
	}
	labels := labelsOf(o)
	if _, isObject := o["kind"]; isObject { // the API server adds it to each
		labels[corev1.LabelMetadataName] = string(name)
	}
	return labels, nil
}

// object returns the Namespace of the simulated cluster, with the labels that were given for it; nil if nothing is known about it.
func (n namespaces) object(_ context.Context, asked world.NamespaceRequest) (map[string]any, error) {
	name := string(asked)
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

// namespaced returns the scope of kinds: a kind of given parameters is namespaced if the parameters are; all others count as cluster-scoped.
// Kyverno's command line does the same without a cluster: parameters in a namespace are then an error of the rule.
func namespaced(parameters func() ([]map[string]any, error)) world.Lookup[world.Kind, bool] {
	known := sync.OnceValues(func() (map[world.Kind]bool, error) {
		if parameters == nil {
			return nil, nil
		}
		objects, err := parameters()
		out := map[world.Kind]bool{}
		for _, o := range objects {
			if namespaceOf(o) != "" {
				out[world.Kind{APIVersion: text(o["apiVersion"]), Kind: text(o["kind"])}] = true
			}
		}
		return out, err
	})
	return func(_ context.Context, k world.Kind) (bool, error) {
		kinds, err := known()
		return kinds[k], err
	}
}
