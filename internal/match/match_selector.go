package match

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// matchSelector tests that the object's labels satisfy the selector.
func matchSelector(sel *selector) test {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		l, err := r.Labels()
		if err != nil {
			return false, err
		}
		return sel.matches(ctx, l)
	}
}

// selector is a label selector whose matchLabels may have wildcards in keys and values. A pair with wildcards holds if some
// actual label matches in both. (Kyverno describes this as replacing the pair by that label, or by one that cannot exist.)
// matchExpressions are standard.
type selector struct {
	pairs        wildcard.Pairs
	requirements []labels.Requirement
	err          error // the selector is invalid; matching returns an error, never false
}

func compileSelector(s *metav1.LabelSelector) *selector {
	sel := &selector{pairs: wildcard.CompilePairs(s.MatchLabels)}
	// Literal pairs are checked as in the API server; pairs with wildcards cannot be checked.
	plain := metav1.LabelSelector{MatchLabels: map[string]string{}, MatchExpressions: s.MatchExpressions}
	for _, p := range sel.pairs {
		key, literalKey := p.Key.Literal()
		value, literalValue := p.Value.Literal()
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

// labelSet is a set of labels in any decoded form.
type labelSet interface {
	labels.Labels
	wildcard.Set
}
