package coverage

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/policy"
)

// Set is a set of requests: operations on resources.
type Set map[Resource]Operations

// Add adds operations on resources.
func (s Set) Add(ops Operations, resources ...Resource) {
	for _, r := range resources {
		if s[r] == nil {
			s[r] = Operations{}
		}
		for op := range ops {
			s[r][op] = true
		}
	}
}

// Remove removes operations on all resources that one of these covers.
func (s Set) Remove(ops Operations, resources ...Resource) {
	for _, gone := range resources {
		for r, have := range s {
			if !gone.Covers(r) {
				continue
			}
			for op := range ops {
				delete(have, op)
			}
		}
	}
}

// AddRules adds the rules of a webhook.
func (s Set) AddRules(rules []admissionv1.RuleWithOperations) {
	for _, r := range rules {
		scope := admissionv1.AllScopes
		if r.Scope != nil {
			scope = *r.Scope
		}
		ops := Operations{}
		for _, o := range r.Operations {
			if o == admissionv1.OperationAll {
				ops = All()
				break
			}
			ops[policy.Operation(o)] = true
		}
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				for _, text := range r.Resources {
					name, sub, _ := strings.Cut(text, "/")
					s.Add(ops, Resource{Group: group, Version: version, Name: name, Subresource: sub, Scope: scope})
				}
			}
		}
	}
}

// Union returns a new set with the requests of all the sets.
func Union(sets ...Set) Set {
	out := Set{}
	for _, s := range sets {
		for r, ops := range s {
			out.Add(ops, r)
		}
	}
	return out
}

// Meets reports whether a request may be in both sets. The API server may send a request for one version as a request for another, so versions
// do not count.
func (s Set) Meets(other Set) bool {
	for r, ops := range s {
		for o, others := range other {
			if r.meets(o) && ops.Meets(others) {
				return true
			}
		}
	}
	return false
}

// On returns the operations on a resource that the set has.
func (s Set) On(at Resource) Operations {
	out := Operations{}
	for r, ops := range s {
		if r.Covers(at) {
			for op := range ops {
				out[op] = true
			}
		}
	}
	return out
}

// Operations returns the operations that the set has on any resource.
func (s Set) Operations() Operations {
	out := Operations{}
	for _, ops := range s {
		for op := range ops {
			out[op] = true
		}
	}
	return out
}

// Rules returns the set as the rules of a webhook, in canonical form: sorted, without duplicates, and merged if only the resource differs.
func (s Set) Rules() []admissionv1.RuleWithOperations {
	s.dropCovered()
	type group struct {
		group, version string
		scope          admissionv1.ScopeType
		operations     string
	}
	merged, debug := map[group][]string{}, map[group]bool{}
	for r, ops := range s {
		if len(ops) == 0 {
			continue
		}
		g := group{r.Group, r.Version, r.Scope, strings.Join(ops.Sorted(), ",")}
		merged[g] = append(merged[g], r.String())
		// A Pod selector also covers ephemeral containers.
		debug[g] = debug[g] || !r.Authored && (r.Group == "" || r.Group == "*") && (r.String() == "pods" || r.String() == "*")
	}
	out := make([]admissionv1.RuleWithOperations, 0, len(merged))
	for g, resources := range merged {
		if debug[g] && !slices.Contains(resources, "*/ephemeralcontainers") && !slices.Contains(resources, "*/*") {
			resources = append(resources, "pods/ephemeralcontainers")
		}
		slices.Sort(resources)
		var ops []admissionv1.OperationType
		for op := range strings.SplitSeq(g.operations, ",") {
			ops = append(ops, admissionv1.OperationType(op))
		}
		out = append(out, admissionv1.RuleWithOperations{
			Operations: ops,
			Rule: admissionv1.Rule{
				APIGroups: []string{g.group}, APIVersions: []string{g.version}, Resources: slices.Compact(resources), Scope: &g.scope,
			},
		})
	}
	slices.SortFunc(out, CompareRules)
	return out
}

// dropCovered removes from each resource the operations that a wider resource covers as well.
func (s Set) dropCovered() {
	for r, ops := range s {
		for wide, wideOps := range s {
			if wide == r || !wide.Covers(r) || wide.Authored && !r.Authored && r.Covers(wide) {
				continue // if both cover each other, the one that no author wrote stays
			}
			for op := range wideOps {
				delete(ops, op)
			}
		}
	}
}

// CompareRules is the canonical order of webhook rules. Rules with shorter lists come first.
func CompareRules(a, b admissionv1.RuleWithOperations) int {
	for _, c := range []int{
		compareLists(a.APIGroups, b.APIGroups), compareLists(a.APIVersions, b.APIVersions),
		compareLists(a.Resources, b.Resources), compareLists(a.Operations, b.Operations),
	} {
		if c != 0 {
			return c
		}
	}
	return strings.Compare(string(*a.Scope), string(*b.Scope))
}

func compareLists[T ~string](a, b []T) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare(a, b)
}
