package compliance

import (
	"slices"

	"ephor.invalid/ephor/internal/wildcard"
)

// Filter selects results. An empty list selects all; names of policies, namespaces, kinds and sources may hold wildcards.
type Filter struct {
	Policies, Namespaces, Kinds, Sources []string
	Severities                           []string // of Severities, or "none"
	Results                              []Status
}

// NoSeverity selects results without a severity, and is shown for them.
const NoSeverity = "none"

// Match reports whether the filter selects r. A filter on namespaces never selects cluster-scoped resources, not even
// with *.
func (f *Filter) Match(r *Result) bool {
	return chosen(f.Policies, r.Policy) && chosen(f.Kinds, r.Resource.Kind) && chosen(f.Sources, r.Source) &&
		(len(f.Namespaces) == 0 || r.Resource.Namespace != "" && wildcard.MatchAny(f.Namespaces, r.Resource.Namespace)) &&
		(len(f.Severities) == 0 || slices.Contains(f.Severities, shown(r.Severity))) &&
		(len(f.Results) == 0 || slices.Contains(f.Results, r.Result))
}

func chosen(patterns []string, name string) bool {
	return len(patterns) == 0 || wildcard.MatchAny(patterns, name)
}

// shown returns the text to show for a severity.
func shown(severity string) string {
	if severity == "" {
		return NoSeverity
	}
	return severity
}

// rank orders severities, the worst first and none last.
func rank(severity string) int {
	if i := slices.Index(Severities, severity); i >= 0 {
		return i
	}
	return len(Severities)
}
