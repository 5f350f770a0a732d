package webhookconf

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// allOperations is the default for validating webhooks, and writeOperations the default for mutating ones.
var (
	allOperations   = operations{policy.Connect: true, policy.Create: true, policy.Delete: true, policy.Update: true}
	writeOperations = operations{policy.Create: true, policy.Update: true}
	// keptOperations are the operations for objects that a generate rule creates.
	keptOperations = operations{policy.Create: true, policy.Delete: true, policy.Update: true}
)

type operations map[policy.Operation]bool

func (o operations) key() string { return strings.Join(o.sorted(), ",") }

func (o operations) sorted() []string {
	out := make([]string, 0, len(o))
	for op := range o {
		out = append(out, string(op))
	}
	slices.Sort(out)
	return out
}

// within reports whether all operations are in the list.
func (o operations) within(list []string) bool {
	for op := range o {
		if !slices.Contains(list, string(op)) {
			return false
		}
	}
	return true
}

// place is a webhook rule without its operations.
type place struct {
	group, version, resource, sub, scope string
	// written: an author wrote the rule by resource, so nothing is added to it.
	written bool
}

// covers reports whether p covers everything that o covers. `*`, `*/*` and `pods/*` cover `pods`. A main resource covers no
// subresource.
func (p place) covers(o place) bool {
	if p.group != "*" && p.group != o.group || p.version != "*" && p.version != o.version || p.scope != "*" && p.scope != o.scope {
		return false
	}
	if p.resource != "*" && p.resource != o.resource {
		return false
	}
	switch p.sub {
	case "":
		return o.sub == ""
	case "*":
		return true
	}
	return p.sub == o.sub
}

func (p place) name() string {
	if p.sub == "" {
		return p.resource
	}
	return p.resource + "/" + p.sub
}

// ruleSet collects the webhook rules of one webhook.
type ruleSet map[place]operations

// add adds the selectors of a rule, without the operations that its exclude block definitely excludes. It returns the number of
// selectors that select nothing that the API server serves. A namespaced policy adds only namespaced resources, since it matches nothing
// else.
func (s *share) add(program *policy.Program, r *policy.Rule, defaults operations, known discovery.Resources) (unknown int, err error) {
	namespacedPolicy := program.Namespace != ""
	own, exact, resize := ruleSet{}, ruleSet{}, ruleSet{}
	for _, t := range r.Targets {
		places, served, err := placesOf(t, namespacedPolicy, known)
		if err != nil {
			return unknown, err
		}
		if !served {
			unknown++
		}
		for _, p := range places {
			switch {
			case p.resource == "*":
				s.wild = true
				if p.sub != "" && p.sub != "*" {
					s.named.addSubresource(p.sub)
				}
			case !t.Wild():
				s.named.add(p)
			case reservedFor(p) != nil:
				continue
			}
			own.put(p, operationsOf(t, defaults))
			if namespacedPolicy && t.Version != "*" {
				exact.put(p, operationsOf(t, defaults))
			}
		}
		if !namespacedPolicy {
			if err := s.siblings.add(t, places, known); err != nil {
				return unknown, err
			}
		}
		if err := addResize(resize, t, operationsOf(t, defaults), known); err != nil {
			return unknown, err
		}
	}
	for _, t := range r.Excludes {
		if t.Names != nil || t.Namespaces != nil || t.MatchLabels != nil {
			continue // the exclusion depends on the object
		}
		places, _, err := placesOf(t, namespacedPolicy, known)
		if err != nil {
			continue // the rules may cover more requests; the engine filters them
		}
		own.subtract(places, operationsOf(t, allOperations))
		exact.subtract(places, operationsOf(t, allOperations))
		resize.subtract(places, operationsOf(t, allOperations))
		if isPod(t) {
			resize.subtract([]place{podResize}, operationsOf(t, allOperations))
		}
	}
	for p, ops := range own {
		s.rules.put(p, ops)
	}
	for p, ops := range exact {
		if s.exact[program.Key()] == nil {
			s.exact[program.Key()] = ruleSet{}
		}
		s.exact[program.Key()].put(p, ops)
	}
	for op := range resize[podResize] {
		s.resize[op] = true
	}
	return unknown, nil
}

// addOutputs adds the kinds that a generate rule creates, because the rule also reacts to their changes.
func (s *share) addOutputs(program *policy.Program, r *policy.Rule, known discovery.Resources) (unknown int, err error) {
	namespacedPolicy := program.Namespace != ""
	for _, o := range r.Outputs {
		gv, err := schema.ParseGroupVersion(o.APIVersion)
		if err != nil || strings.Contains(o.APIVersion+o.Kind, "{{") {
			continue // the kind is only known when the rule is executed
		}
		found, err := known.Find(policy.Target{Group: gv.Group, Version: gv.Version, Kind: o.Kind})
		if err != nil {
			return unknown, err
		}
		if len(found) == 0 {
			unknown++
		}
		var places []place
		for _, r := range found {
			if namespacedPolicy && !r.Namespaced {
				continue
			}
			s.named.add(place{group: r.Group, resource: r.Resource})
			s.rules.put(placeOf(r), keptOperations)
			places = append(places, placeOf(r))
		}
		if !namespacedPolicy {
			if err := s.siblings.add(policy.Target{Group: gv.Group, Version: gv.Version, Kind: o.Kind}, places, known); err != nil {
				return unknown, err
			}
		}
	}
	return unknown, nil
}

func operationsOf(t policy.Target, defaults operations) operations {
	if len(t.Operations) == 0 {
		return defaults
	}
	ops := operations{}
	for _, op := range t.Operations {
		if allOperations[op] { // the API server rejects rules with others
			ops[op] = true
		}
	}
	return ops
}

func (s ruleSet) put(p place, ops operations) {
	if s[p] == nil {
		s[p] = operations{}
	}
	for op := range ops {
		s[p][op] = true
	}
}

func (s ruleSet) subtract(places []place, ops operations) {
	for _, gone := range places {
		for p, have := range s {
			if !gone.covers(p) {
				continue
			}
			for op := range ops {
				delete(have, op)
			}
		}
	}
}

// placesOf returns the resources that a selector selects. served is false if it selects nothing that the API server serves. A
// selector by resource becomes a rule without changes, because the API server accepts rules for resources that it does not serve yet.
func placesOf(t policy.Target, namespacedPolicy bool, known discovery.Resources) (places []place, served bool, err error) {
	if t.ByResource() {
		p := place{group: t.Group, version: t.Version, resource: t.Resource, sub: t.Subresource, scope: cmp.Or(string(t.Scope), string(admissionv1.AllScopes)), written: true}
		if namespacedPolicy {
			if p.scope == string(admissionv1.ClusterScope) {
				return nil, true, nil
			}
			p.scope = string(admissionv1.NamespacedScope)
		}
		return []place{p}, true, nil
	}
	if t.Everything() {
		// Wildcards are not resolved, so that they also cover kinds that are installed later.
		scope := string(admissionv1.AllScopes)
		if namespacedPolicy {
			scope = string(admissionv1.NamespacedScope)
		}
		return []place{{group: "*", version: "*", resource: "*", sub: t.Subresource, scope: scope}}, true, nil
	}
	found, err := known.Find(t)
	if err != nil {
		return nil, false, err
	}
	for _, r := range found {
		if !namespacedPolicy || r.Namespaced {
			places = append(places, placeOf(r))
		}
	}
	return places, len(found) > 0, nil
}

func placeOf(r discovery.Resource) place {
	scope := string(admissionv1.AllScopes)
	if r.Namespaced {
		scope = string(admissionv1.NamespacedScope)
	}
	return place{group: r.Group, version: r.Version, resource: r.Resource, sub: r.Subresource, scope: scope}
}

// keep adds stored rules while discovery is incomplete, so that no coverage is lost.
func (s ruleSet) keep(stored []admissionv1.RuleWithOperations) {
	for _, r := range stored {
		scope := string(admissionv1.AllScopes)
		if r.Scope != nil {
			scope = string(*r.Scope)
		}
		ops := operations{}
		for _, o := range r.Operations {
			if o == admissionv1.OperationAll {
				ops = allOperations
				break
			}
			ops[policy.Operation(o)] = true
		}
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				for _, name := range r.Resources {
					resource, sub, _ := strings.Cut(name, "/")
					s.put(place{group: group, version: version, resource: resource, sub: sub, scope: scope}, ops)
				}
			}
		}
	}
}

// rules returns the set in canonical form: sorted, without duplicates, and merged if only the resource differs.
func (s ruleSet) rules() []admissionv1.RuleWithOperations {
	s.dropCovered()
	type group struct{ group, version, scope, operations string }
	merged, added := map[group][]string{}, map[group]bool{}
	for p, ops := range s {
		if len(ops) == 0 {
			continue
		}
		g := group{p.group, p.version, p.scope, ops.key()}
		merged[g] = append(merged[g], p.name())
		// A Pod selector also covers ephemeral containers.
		added[g] = added[g] || !p.written && (p.group == "" || p.group == "*") && (p.name() == "pods" || p.name() == "*")
	}
	out := make([]admissionv1.RuleWithOperations, 0, len(merged))
	for g, resources := range merged {
		if added[g] && !slices.Contains(resources, "*/ephemeralcontainers") && !slices.Contains(resources, "*/*") {
			resources = append(resources, "pods/ephemeralcontainers")
		}
		slices.Sort(resources)
		scope := admissionv1.ScopeType(g.scope)
		var ops []admissionv1.OperationType
		for op := range strings.SplitSeq(g.operations, ",") {
			ops = append(ops, admissionv1.OperationType(op))
		}
		out = append(out, admissionv1.RuleWithOperations{
			Operations: ops,
			Rule: admissionv1.Rule{
				APIGroups: []string{g.group}, APIVersions: []string{g.version}, Resources: slices.Compact(resources), Scope: &scope,
			},
		})
	}
	slices.SortFunc(out, compareRules)
	return out
}

// united returns a new set with all rules of the sets.
func united(sets ...ruleSet) ruleSet {
	out := ruleSet{}
	for _, s := range sets {
		for p, ops := range s {
			out.put(p, ops)
		}
	}
	return out
}

// asks returns the operations of the set for a place.
func (s ruleSet) asks(at place) operations {
	out := operations{}
	for p, ops := range s {
		if p.covers(at) {
			for op := range ops {
				out[op] = true
			}
		}
	}
	return out
}

// operations returns all operations of the rules.
func (s ruleSet) operations() operations {
	out := operations{}
	for _, ops := range s {
		for op := range ops {
			out[op] = true
		}
	}
	return out
}

// dropCovered removes from each place the operations that a wider place covers as well.
func (s ruleSet) dropCovered() {
	for p, ops := range s {
		for wide, wideOps := range s {
			if wide == p || !wide.covers(p) || wide.written && !p.written && p.covers(wide) {
				continue // if both cover each other, the one that is not written stays
			}
			for op := range wideOps {
				delete(ops, op)
			}
		}
	}
}

func compareRules(a, b admissionv1.RuleWithOperations) int {
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

// compareLists sorts shorter lists first.
func compareLists[T ~string](a, b []T) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare(a, b)
}
