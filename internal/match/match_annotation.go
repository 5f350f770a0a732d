package match

import (
	"context"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// allIn reports whether for each pair some actual entry matches in both key and value. It counts the work on the meter of ctx,
// if there is one.
func allIn(ctx context.Context, pairs wildcard.Pairs, actual wildcard.Set) (bool, error) {
	work := 0
	ok, err := pairs.In(actual, &work)
	if over := charge(ctx, work); over != nil {
		return false, over
	}
	return ok, err
}

// little is the number of steps that are not charged.
const little = 16

// charge charges steps to the meter of ctx, if there is one.
func charge(ctx context.Context, steps int) error {
	if steps < little {
		return nil
	}
	return budget.Of(ctx).Beside(int64(steps))
}

// matchAnnotations tests that for every expected entry some actual annotation matches in key and value.
func matchAnnotations(want map[string]string) test {
	pairs := wildcard.CompilePairs(want)
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		annotations, err := r.Annotations()
		if err != nil {
			return false, err
		}
		return allIn(ctx, pairs, annotations)
	}
}
