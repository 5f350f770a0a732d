package match

import (
	"context"
	"slices"

	"ephor.invalid/ephor/internal/policy"
)

// matchRoles tests that the requester has one of the roles, written namespace:name. Finding a requester's roles may fail.
func matchRoles(want []string) test {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		have, err := r.Roles(ctx)
		return err == nil && intersect(want, have.Roles), err
	}
}

// matchClusterRoles tests that the requester has one of the cluster roles.
func matchClusterRoles(want []string) test {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		have, err := r.Roles(ctx)
		return err == nil && intersect(want, have.ClusterRoles), err
	}
}

// intersect compares exactly: role names do not support wildcards.
func intersect(want, have []string) bool {
	for _, w := range want {
		if slices.Contains(have, w) {
			return true
		}
	}
	return false
}
