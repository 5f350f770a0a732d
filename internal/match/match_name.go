package match

import (
	"context"
	"slices"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// matchNames tests that one of the wildcards matches the object's name, or its generateName while it has no name.
func matchNames(names []string) test {
	patterns := compilePatterns(names)
	if restrictsNothing(patterns) {
		return always
	}
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		name, err := r.ObjectName()
		if err != nil {
			return false, err
		}
		return matchAny(ctx, patterns, name)
	}
}

// always is the test of an attribute that is set but restricts nothing.
func always(context.Context, *policy.Request) (bool, error) { return true, nil }

// restrictsNothing reports whether one of the patterns is `*`, which also matches the empty text.
func restrictsNothing(patterns []wildcard.Pattern) bool {
	return slices.ContainsFunc(patterns, func(p wildcard.Pattern) bool { return p.String() == "*" })
}

func compilePatterns(texts []string) []wildcard.Pattern {
	patterns := make([]wildcard.Pattern, len(texts))
	for i, t := range texts {
		patterns[i] = wildcard.Compile(t)
	}
	return patterns
}

// matchAny reports whether one of the patterns matches, and charges for the comparisons before they are made.
func matchAny(ctx context.Context, patterns []wildcard.Pattern, s string) (bool, error) {
	steps := 0
	for i := range patterns {
		steps += 1 + patterns[i].Cost(s)
	}
	if err := charge(ctx, steps); err != nil {
		return false, err
	}
	for i := range patterns {
		if patterns[i].Match(s) {
			return true, nil
		}
	}
	return false, nil
}
