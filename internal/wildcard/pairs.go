package wildcard

import (
	"errors"
	"slices"
	"strings"
)

// Pairs are expected labels or annotations whose keys and values may hold wildcards.
type Pairs []Pair

// Pair is one expected label or annotation.
type Pair struct{ Key, Value Pattern }

// CompilePairs orders the pairs by key, so that evaluation does not depend on Go's map order.
func CompilePairs(m map[string]string) Pairs {
	pairs := make(Pairs, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, Pair{Compile(k), Compile(v)})
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return pairs
}

// maxPairWork bounds the work of comparing wildcards in one match. People write few wildcards for few labels; comparing
// many with many would take seconds.
const maxPairWork = 1 << 18

// ErrPairWork is the error of a comparison that takes too long.
var ErrPairWork = errors.New("matching these wildcards against so many labels or annotations takes too long")

// Set is a set of labels or annotations in any decoded form.
type Set interface {
	Lookup(key string) (value string, exists bool)
	// Any reports whether f is true for any entry.
	Any(f func(key, value string) bool) bool
}

// In reports whether for each pair some entry of the set matches in both key and value. It adds the work, in steps of some
// nanoseconds, to work.
func (pairs Pairs) In(actual Set, work *int) (bool, error) {
	for i := range pairs {
		p := &pairs[i]
		if key, ok := p.Key.Literal(); ok {
			v, has := actual.Lookup(key)
			if *work += p.Value.Cost(v); *work > maxPairWork {
				return false, ErrPairWork
			}
			if !has || !p.Value.Match(v) {
				return false, nil
			}
			continue
		}
		found := actual.Any(func(k, v string) bool {
			if *work += 1 + p.Key.Cost(k) + p.Value.Cost(v); *work > maxPairWork {
				return true
			}
			return p.Key.Match(k) && p.Value.Match(v)
		})
		if *work > maxPairWork {
			return false, ErrPairWork
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// Values is a Set that reads a decoded object without copying it. It also implements labels.Labels of apimachinery.
type Values map[string]any

// Has reports whether the key exists.
func (m Values) Has(key string) bool { _, ok := m.Lookup(key); return ok }

// Get returns the value of key, or "".
func (m Values) Get(key string) string { v, _ := m.Lookup(key); return v }

// Lookup returns the value of key and whether it exists. A null exists and counts as empty.
func (m Values) Lookup(key string) (string, bool) {
	v, found := m[key]
	if !found {
		return "", false
	}
	s, _ := v.(string)
	return s, true
}

// Any implements Set.
func (m Values) Any(f func(key, value string) bool) bool {
	for k, v := range m {
		s, _ := v.(string)
		if f(k, s) {
			return true
		}
	}
	return false
}

// Texts is a Set of decoded texts, such as the labels of a namespace. It also implements labels.Labels of apimachinery.
type Texts map[string]string

// Has reports whether the key exists.
func (m Texts) Has(key string) bool { _, ok := m[key]; return ok }

// Get returns the value of key, or "".
func (m Texts) Get(key string) string { return m[key] }

// Lookup returns the value of key and whether it exists.
func (m Texts) Lookup(key string) (string, bool) { v, ok := m[key]; return v, ok }

// Any implements Set.
func (m Texts) Any(f func(key, value string) bool) bool {
	for k, v := range m {
		if f(k, v) {
			return true
		}
	}
	return false
}
