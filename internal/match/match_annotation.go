package match

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// pairPattern is an expected label or annotation whose key and value may hold wildcards.
type pairPattern struct{ key, value wildcard.Pattern }

// compilePairs orders the pairs by key, so that evaluation does not depend on Go's map order.
func compilePairs(m map[string]string) []pairPattern {
	pairs := make([]pairPattern, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, pairPattern{wildcard.Compile(k), wildcard.Compile(v)})
	}
	slices.SortFunc(pairs, func(a, b pairPattern) int { return strings.Compare(a.key.String(), b.key.String()) })
	return pairs
}

// maxPairWork is how much comparing of wildcards one match may take. People write few wildcards for few labels; many for
// many would take seconds.
const maxPairWork = 1 << 18

var errPairWork = errors.New("matching these wildcards against so many labels or annotations takes too long")

// workPerStep is how much comparing takes as long as a step of the meter.
const workPerStep = 8

// allIn reports whether for each pair some actual entry matches in both key and value. What that takes is counted on the meter
// of ctx, if there is one.
func allIn(ctx context.Context, pairs []pairPattern, actual labelSet) (bool, error) {
	work := 0
	ok, err := compare(pairs, actual, &work)
	if work >= workPerStep {
		if over := budget.Of(ctx).Beside(int64(work / workPerStep)); over != nil {
			return false, over
		}
	}
	return ok, err
}

// compare is allIn with the work that it takes added to work.
func compare(pairs []pairPattern, actual labelSet, work *int) (bool, error) {
	for i := range pairs {
		p := &pairs[i]
		if key, ok := p.key.Literal(); ok {
			v, has := actual.Lookup(key)
			if *work += p.value.Cost(v); *work > maxPairWork {
				return false, errPairWork
			}
			if !has || !p.value.Match(v) {
				return false, nil
			}
			continue
		}
		found := actual.any(func(k, v string) bool {
			if *work += 1 + p.key.Cost(k) + p.value.Cost(v); *work > maxPairWork {
				return true
			}
			return p.key.Match(k) && p.value.Match(v)
		})
		if *work > maxPairWork {
			return false, errPairWork
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// matchAnnotations: every expected entry has some actual annotation that matches in key and value.
func matchAnnotations(want map[string]string) test {
	pairs := compilePairs(want)
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		annotations, err := objectAnnotations(r)
		if err != nil {
			return false, err
		}
		return allIn(ctx, pairs, objectMap(annotations))
	}
}
