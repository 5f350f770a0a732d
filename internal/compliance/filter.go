package compliance

import (
	"slices"

	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Filter chooses results. An empty list chooses all; names of policies, namespaces, kinds and sources may hold wildcards.
type Filter struct {
	Policies, Namespaces, Kinds, Sources []string
	Severities                           []string // of Severities, or "none"
	Results                              []Status
}

// NoSeverity is how results without a severity are chosen and shown.
const NoSeverity = "none"

// Match reports whether r is chosen. What lies in no namespace is not chosen by names of namespaces, not even by *.
func (f *Filter) Match(r *Result) bool {
	return chosen(f.Policies, r.Policy) && chosen(f.Kinds, r.Resource.Kind) && chosen(f.Sources, r.Source) &&
		(len(f.Namespaces) == 0 || r.Resource.Namespace != "" && wildcard.MatchAny(f.Namespaces, r.Resource.Namespace)) &&
		(len(f.Severities) == 0 || slices.Contains(f.Severities, shown(r.Severity))) &&
		(len(f.Results) == 0 || slices.Contains(f.Results, r.Result))
}

func chosen(patterns []string, name string) bool {
	return len(patterns) == 0 || wildcard.MatchAny(patterns, name)
}

// shown is a severity as it is shown.
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
