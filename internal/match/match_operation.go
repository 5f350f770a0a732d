package match

import (
	"context"
	"slices"

	"ephor.invalid/ephor/internal/policy"
)

// matchOperations tests that the request's operation is listed. An object without a request (in a scan) counts as being
// created.
func matchOperations(operations []policy.Operation) test {
	return func(_ context.Context, r *policy.Request) (bool, error) {
		return slices.Contains(operations, r.EffectiveOperation()), nil
	}
}
