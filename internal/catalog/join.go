package catalog

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// Join returns the programs with the exceptions joined to the rules that they name: the policy by its exact key, the rule by wildcard,
// including computed rules. It returns a Program without exceptions unchanged, and copies the others. The exceptions of a rule keep their
// order. Join changes neither list.
func Join(programs []*policy.Program, exceptions []*policy.Exception) []*policy.Program {
	if len(exceptions) == 0 {
		return programs
	}
	x := exceptionsOf(exceptions)
	out := make([]*policy.Program, len(programs))
	for i, p := range programs {
		out[i] = x.join(p)
	}
	return out
}

// exceptionSet holds exceptions by the policies that they name.
type exceptionSet map[string][]*policy.Exception

func exceptionsOf(list []*policy.Exception) exceptionSet {
	out := exceptionSet{}
	for _, e := range list {
		for _, key := range policiesOf(e) {
			out[key] = append(out[key], e)
		}
	}
	return out
}

// policiesOf returns the keys of the policies that an exception names, without duplicates.
func policiesOf(e *policy.Exception) []string {
	var out []string
	for _, r := range e.Rules {
		if !slices.Contains(out, r.Policy) {
			out = append(out, r.Policy)
		}
	}
	return out
}

// join returns p with its exceptions; p itself if no exception names one of its rules.
func (x exceptionSet) join(p *policy.Program) *policy.Program {
	key := p.Key()
	candidates := x[key]
	if p.Namespace != "" { // exceptions that name policies without their namespace
		candidates = slices.Clip(candidates)
		for _, e := range x[p.Name] {
			if !slices.Contains(candidates, e) {
				candidates = append(candidates, e)
			}
		}
	}
	if len(candidates) == 0 {
		return p
	}
	out := p
	for i, r := range p.Rules {
		var found []*policy.Exception
		for _, e := range candidates {
			if concerns(e, p, r) {
				found = append(found, e.Whole())
			}
		}
		if len(found) == 0 {
			continue
		}
		if out == p {
			copied := *p
			copied.Rules = slices.Clone(p.Rules)
			out = &copied
		}
		joined := *r
		joined.Exceptions, joined.OwnNeeds = found, &r.Needs
		for _, e := range found {
			joined.Needs.Merge(e.Needs)
		}
		out.Rules[i] = &joined
	}
	return out
}

// concerns reports whether the exception names the rule of the policy. An exception applies only to policies of its kinds.
func concerns(e *policy.Exception, p *policy.Program, rule *policy.Rule) bool {
	if !slices.Contains(e.Kinds, p.Kind) {
		return false
	}
	for _, r := range e.Rules {
		named := r.Policy == p.Key() || r.AnyNamespace && r.Policy == p.Name
		if named && (r.Kind == "" || r.Kind == p.Kind) && (wildcard.MatchAny(r.Names, rule.Name) || e.Workload && rule.Origin.IsAutogen() && wildcard.MatchAny(r.Names, rule.Origin.Parent)) {
			return true
		}
	}
	return false
}

// sortedExceptions returns the exceptions sorted by ID, so that results do not depend on their order of arrival.
func sortedExceptions(m map[policy.ExceptionID]*policy.Exception) []*policy.Exception {
	return slices.SortedFunc(maps.Values(m), func(a, b *policy.Exception) int { return a.ID().Compare(b.ID()) })
}
