package match

import (
	"context"
	"slices"
	"strings"

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

// in reports whether some actual entry matches in both key and value.
func (p *pairPattern) in(actual labelSet) bool {
	if key, ok := p.key.Literal(); ok {
		v, has := actual.Lookup(key)
		return has && p.value.Match(v)
	}
	return actual.any(func(k, v string) bool { return p.key.Match(k) && p.value.Match(v) })
}

// matchAnnotations: every expected entry has some actual annotation that matches in key and value.
func matchAnnotations(want map[string]string) test {
	pairs := compilePairs(want)
	return func(_ context.Context, r *policy.Request) (bool, error) {
		annotations, err := objectAnnotations(r)
		if err != nil {
			return false, err
		}
		for i := range pairs {
			if !pairs[i].in(objectMap(annotations)) {
				return false, nil
			}
		}
		return true, nil
	}
}
