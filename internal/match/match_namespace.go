package match

import (
	"context"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// matchNamespaces tests that one of the wildcards matches the object's namespace; for a Namespace, its own name.
func matchNamespaces(namespaces []string) test {
	patterns := compilePatterns(namespaces)
	if restrictsNothing(patterns) {
		return always
	}
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		if !r.IsNamespace() {
			return matchAny(ctx, patterns, r.Namespace)
		}
		name, err := r.ObjectName()
		if err != nil {
			return false, err
		}
		return matchAny(ctx, patterns, name)
	}
}

// matchNamespaceSelector tests that the labels of the object's namespace satisfy the selector. For a Namespace the result is
// namespacesPass: false in policies, true in exceptions. A cluster-scoped object is tested with an empty set of labels. The
// test needs a lookup, which may fail.
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
