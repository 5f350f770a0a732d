package match

import (
	"context"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// matchNamespaces: one of the wildcards matches the object's namespace; a Namespace is evaluated by its own name.
func matchNamespaces(namespaces []string) test {
	patterns := compilePatterns(namespaces)
	if restrictsNothing(patterns) {
		return always
	}
	return func(_ context.Context, r *policy.Request) (bool, error) {
		if !r.IsNamespace() {
			return matchAny(patterns, r.Namespace), nil
		}
		name, err := r.ObjectName()
		if err != nil {
			return false, err
		}
		return matchAny(patterns, name), nil
	}
}

// matchNamespaceSelector: the labels of the object's namespace fulfil the selector. For a Namespace the answer is
// namespacesPass: no in policies, yes in exceptions. It evaluates a cluster-scoped object by an
// empty set of labels. It needs a lookup, which may fail.
func matchNamespaceSelector(sel *selector, namespacesPass bool) test {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		if r.IsNamespace() {
			return namespacesPass, nil
		}
		labels, err := r.NamespaceLabels(ctx)
		if err != nil {
			return false, err
		}
		return sel.matches(ctx, wildcard.Texts(labels))
	}
}
