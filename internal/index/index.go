package index

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Index finds, among many Programs, the rules that may match a request. It is immutable to its callers and safe for concurrent use.
//
// Rules are indexed by the kinds and the resources of their targets. The candidates for one kind or resource and one operation are computed
// at the first such request and cached as a view (see view.go), so a lookup costs the same with one Program or a thousand for other kinds.
type Index struct {
	programs  []*policy.Program // in order
	order     func(a, b *policy.Program) int
	kinds     map[string][]ruleTarget // by the kind in the target
	resources map[string][]ruleTarget // by the resource in the target
	wild      []ruleTarget            // entries that may match every kind
	// byResource: some target names a resource or a scope. Otherwise both are ignored.
	byResource bool
	buckets    buckets
}

// ruleTarget is one target of one rule.
type ruleTarget struct {
	program *policy.Program
	rule    *policy.Rule
	target  *policy.Target
}

// Query selects among the Programs for a request. It is comparable.
type Query struct {
	// Family limits the query to Programs of that family; empty for all.
	Family string
	// Stages selects rules of at least one of these stages.
	Stages policy.Stage
	// FailurePolicy limits the query to Programs with that failure policy.
	FailurePolicy FailurePolicies
	// SharedOnly excludes Programs with a webhook of their own (policy.Program.OwnWebhook).
	SharedOnly bool
	// FixedWebhooks: the webhooks do not follow the policies. SharedOnly takes this into account.
	FixedWebhooks bool
}

// FailurePolicies is a set of failure policies; the zero value holds both.
type FailurePolicies uint8

// The sets of failure policies.
const (
	AnyFailurePolicy FailurePolicies = iota
	OnlyFail
	OnlyIgnore
)

// New returns an index of programs. Lookups return cluster-scoped policies before namespaced ones, each sorted by name.
func New(programs []*policy.Program) *Index {
	return build(programs, Compare)
}

// NewOrdered returns an index whose lookups keep the given order, as the command line applies policies in the order in which it loaded
// them.
func NewOrdered(programs []*policy.Program) *Index {
	position := make(map[*policy.Program]int, len(programs))
	for i, p := range programs {
		position[p] = i
	}
	return build(programs, func(a, b *policy.Program) int { return position[a] - position[b] })
}

// Compare orders Programs: cluster-scoped before namespaced, then by name, namespace and kind.
func Compare(a, b *policy.Program) int {
	if a == b {
		return 0
	}
	if (a.Namespace == "") != (b.Namespace == "") {
		if a.Namespace == "" {
			return -1
		}
		return 1
	}
	return cmp.Or(
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.APIVersion, b.APIVersion),
		strings.Compare(a.UID, b.UID),
	)
}

func build(programs []*policy.Program, order func(a, b *policy.Program) int) *Index {
	x := &Index{order: order, programs: slices.Clone(programs), kinds: map[string][]ruleTarget{}, resources: map[string][]ruleTarget{}}
	slices.SortStableFunc(x.programs, order)
	for _, p := range x.programs {
		x.add(p)
	}
	return x
}

// add adds the entries of p to an index that is not yet shared.
func (x *Index) add(p *policy.Program) {
	entries(p, func(e ruleTarget) {
		x.byResource = x.byResource || asksResource(e.target) || slices.ContainsFunc(e.rule.Excludes, func(t policy.Target) bool { return asksResource(&t) })
		switch name := e.target; {
		case name.Wild():
			x.wild = append(x.wild, e)
		case name.ByResource():
			x.resources[name.Resource] = append(x.resources[name.Resource], e)
		default:
			x.kinds[name.Kind] = append(x.kinds[name.Kind], e)
		}
	})
}

func asksResource(t *policy.Target) bool { return t.ByResource() || t.Scope != "" }

func entries(p *policy.Program, f func(ruleTarget)) {
	for _, r := range p.Rules {
		for i := range r.Targets {
			f(ruleTarget{p, r, &r.Targets[i]})
		}
	}
}

// With returns an index in which the Programs in added replace those in removed. It keeps the views for kinds and resources that neither
// names; an entry with a wildcard kind invalidates all views. Use it only for indexes made by New.
func (x *Index) With(removed, added []*policy.Program) *Index {
	gone := make(map[*policy.Program]bool, len(removed))
	for _, p := range removed {
		gone[p] = true
	}
	out := &Index{order: x.order, kinds: maps.Clone(x.kinds), resources: maps.Clone(x.resources), wild: x.wild, byResource: x.byResource}
	out.programs = slices.DeleteFunc(slices.Clone(x.programs), func(p *policy.Program) bool { return gone[p] })
	for _, p := range added {
		at, _ := slices.BinarySearchFunc(out.programs, p, x.order)
		out.programs = slices.Insert(out.programs, at, p)
	}

	var changed touched
	for _, list := range [][]*policy.Program{removed, added} {
		for _, p := range list {
			entries(p, changed.add)
		}
	}
	keep := func(list []ruleTarget) []ruleTarget {
		return slices.DeleteFunc(slices.Clone(list), func(e ruleTarget) bool { return gone[e.program] })
	}
	if changed.wild {
		out.wild = keep(x.wild)
	}
	for name := range changed.kinds {
		out.kinds[name] = keep(x.kinds[name])
	}
	for name := range changed.resources {
		out.resources[name] = keep(x.resources[name])
	}
	for _, p := range added {
		out.add(p)
	}
	for name := range changed.kinds {
		if len(out.kinds[name]) == 0 {
			delete(out.kinds, name)
		}
	}
	for name := range changed.resources {
		if len(out.resources[name]) == 0 {
			delete(out.resources, name)
		}
	}
	if out.byResource == x.byResource {
		out.buckets.copyFrom(&x.buckets, &changed)
	}
	return out
}

// touched are the parts of an index that a change affects.
type touched struct {
	kinds, resources map[string]bool
	wild             bool
}

func (t *touched) add(e ruleTarget) {
	put := func(m *map[string]bool, name string) {
		if *m == nil {
			*m = map[string]bool{}
		}
		(*m)[name] = true
	}
	switch {
	case e.target.Wild():
		t.wild = true
	case e.target.ByResource():
		put(&t.resources, e.target.Resource)
	default:
		put(&t.kinds, e.target.Kind)
	}
}

// concerns reports whether the change affects the entries of the bucket.
func (t *touched) concerns(k bucketKey) bool {
	return t.kinds[k.kind] || t.resources[k.resource.Resource] || k.resource.Resource == "" && len(t.resources) > 0
}

// Programs returns all Programs in order. The list is shared: do not change it.
func (x *Index) Programs() []*policy.Program { return x.programs }

// Lookup returns the Programs with rules of the given stages that may match the request, each with those rules in order. It never leaves
// out a rule that Match would accept; the caller must still call Match. It excludes Programs that are switched off for the request's
// origin, and namespaced ones for objects outside their namespace.
//
// With StageMutate, labels of the object exclude no rule, since an earlier rule may set a label that a later rule selects; for other
// stages, the caller must look up again with the mutated object. The result is shared: do not change it.
func (x *Index) Lookup(r *policy.Request, stages policy.Stage) []policy.Selection {
	return x.Query(r, Query{Stages: stages})
}

// Reads returns the fields of r's object that the rules of Query may read; nil if they may read any field. The object may still be missing.
func (x *Index) Reads(r *policy.Request, q Query) *value.Fields {
	return x.bucketFor(r).view(x.order, r, q).reads
}

// Query is Lookup with more conditions.
func (x *Index) Query(r *policy.Request, q Query) []policy.Selection {
	return x.bucketFor(r).view(x.order, r, q).lookup(r)
}
