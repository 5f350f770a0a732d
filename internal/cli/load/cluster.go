package load

import (
	"context"
	"errors"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
)

// FromCluster compiles the policies of these names in a cluster, as its controllers do.
func FromCluster(ctx context.Context, families *compile.Registry, c *remote.Cluster, names []string) (PolicySet, error) {
	q := remote.Query{Page: remote.PageSize, Names: names}
	for _, k := range families.Kinds() {
		q.Add(c.Kinds.Wanted(policy.Target{Group: k.Group, Version: "*", Kind: k.Kind}))
	}
	var found []source.Object
	var errs []error
	c.List(ctx, q, func(p remote.Page) {
		found = append(found, p.Objects...)
		errs = append(errs, p.Err)
	})
	if err := errors.Join(errs...); err != nil || len(names) == 0 {
		return PolicySet{}, err
	}
	return policiesOf(families, found, nil, inForce), nil
}
