package match

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ephor-dev/ephor/internal/policy"
)

// matchSelector: the object's labels fulfil the selector.
func matchSelector(sel *selector) test {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		l, err := objectLabels(r)
		if err != nil {
			return false, err
		}
		return sel.matches(ctx, objectMap(l))
	}
}

// selector is a label selector whose matchLabels may hold wildcards in keys and values. A pair with wildcards holds
// when some actual label matches in both; Kyverno writes that as replacing the pair by that label, or by one that
// cannot exist. matchExpressions are standard.
type selector struct {
	pairs        []pairPattern
	requirements []labels.Requirement
	err          error // the selector cannot be used; matching is an error, never false
}

func compileSelector(s *metav1.LabelSelector) *selector {
	sel := &selector{pairs: compilePairs(s.MatchLabels)}
	// Literal pairs are checked as the API server would; pairs with wildcards cannot be.
	plain := metav1.LabelSelector{MatchLabels: map[string]string{}, MatchExpressions: s.MatchExpressions}
	for _, p := range sel.pairs {
		key, literalKey := p.key.Literal()
		value, literalValue := p.value.Literal()
		if literalKey && literalValue {
			plain.MatchLabels[key] = value
		}
	}
	if _, err := metav1.LabelSelectorAsSelector(&plain); err != nil {
		sel.err = fmt.Errorf("failed to parse selector: %w", err)
		return sel
	}
	expressions, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.MatchExpressions})
	if err != nil {
		sel.err = fmt.Errorf("failed to parse selector: %w", err)
		return sel
	}
	sel.requirements, _ = expressions.Requirements()
	return sel
}

func (s *selector) matches(ctx context.Context, actual labelSet) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	if ok, err := allIn(ctx, s.pairs, actual); !ok {
		return false, err
	}
	for i := range s.requirements {
		if !s.requirements[i].Matches(actual) {
			return false, nil
		}
	}
	return true, nil
}

// labelSet is a set of labels (or annotations), wherever it was decoded.
type labelSet interface {
	labels.Labels
	any(func(key, value string) bool) bool
}

// objectMap reads labels in a decoded object without copying them.
type objectMap map[string]any

// Has reports whether key is there.
func (m objectMap) Has(key string) bool { _, ok := m.Lookup(key); return ok }

// Get returns the value of key, or nothing.
func (m objectMap) Get(key string) string { v, _ := m.Lookup(key); return v }

// Lookup returns the value of key and whether it is there. A null is there, and empty.
func (m objectMap) Lookup(key string) (string, bool) {
	v, found := m[key]
	if !found {
		return "", false
	}
	s, _ := v.(string)
	return s, true
}

func (m objectMap) any(f func(key, value string) bool) bool {
	for k, v := range m {
		s, _ := v.(string)
		if f(k, s) {
			return true
		}
	}
	return false
}

// stringLabels reads the labels of a namespace.
type stringLabels map[string]string

// Has reports whether key is there.
func (m stringLabels) Has(key string) bool { _, ok := m[key]; return ok }

// Get returns the value of key, or nothing.
func (m stringLabels) Get(key string) string { return m[key] }

// Lookup returns the value of key and whether it is there.
func (m stringLabels) Lookup(key string) (string, bool) { v, ok := m[key]; return v, ok }

func (m stringLabels) any(f func(key, value string) bool) bool {
	for k, v := range m {
		if f(k, v) {
			return true
		}
	}
	return false
}
