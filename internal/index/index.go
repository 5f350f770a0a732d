package index

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// Index finds, among many Programs, the rules that may match a request. It is immutable to its callers and safe for all
// goroutines.
//
// Rules are filed under the kinds and the resources that their targets name. What a request for one of them, with one
// operation, may need is worked out when the first such request comes and kept as a view (see view.go), so a lookup costs
// the same with one Program or a thousand for other kinds.
type Index struct {
	programs  []*policy.Program // in order
	order     func(a, b *policy.Program) int
	kinds     map[string][]entry // by the kind that targets name
	resources map[string][]entry // by the resource that targets name
	wild      []entry            // entries that may be for every kind
	// byResource: a target asks for the resource or the scope. Else neither decides anything, and they are not looked at.
	byResource bool
	places     places
}

// entry is one target of one rule.
type entry struct {
	program *policy.Program
	rule    *policy.Rule
	target  *policy.Target
}

// Query says which of the Programs for a request are wanted. It is comparable.
type Query struct {
	// Family restricts to Programs of that family; empty for all.
	Family string
	// Stages: rules of at least one of these stages.
	Stages policy.Stage
	// FailurePolicy restricts to Programs with that failure policy.
	FailurePolicy FailurePolicies
	// SharedOnly leaves Programs out that have a webhook of their own (policy.Program.OwnWebhook).
	SharedOnly bool
	// FixedWebhooks: the webhooks do not follow the policies, which SharedOnly takes into account.
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

// New files programs. Lookups answer cluster-scoped policies before namespaced ones, each by name.
func New(programs []*policy.Program) *Index {
	return build(programs, Compare)
}

// NewOrdered files programs; lookups answer them in the order in which they were given, as the command line
// applies policies in the order in which it loaded them.
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
	x := &Index{order: order, programs: slices.Clone(programs), kinds: map[string][]entry{}, resources: map[string][]entry{}}
	slices.SortStableFunc(x.programs, order)
	for _, p := range x.programs {
		x.add(p)
	}
	return x
}

// add files the entries of p in an index that is not shared yet.
func (x *Index) add(p *policy.Program) {
	entries(p, func(e entry) {
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

func entries(p *policy.Program, f func(entry)) {
	for _, r := range p.Rules {
		for i := range r.Targets {
			f(entry{p, r, &r.Targets[i]})
		}
	}
}

// With returns an index in which the Programs of removed are replaced by those of added. Views for kinds and resources that
// neither names are kept; only an entry with a wildcard kind makes all of them be worked out again. It is for indexes of
// New.
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
	keep := func(list []entry) []entry {
		return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return gone[e.program] })
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
		out.places.keep(&x.places, &changed)
	}
	return out
}

// touched are the lists of an index that a change is about.
type touched struct {
	kinds, resources map[string]bool
	wild             bool
}

func (t *touched) add(e entry) {
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

// concerns reports whether the change is about what is filed for the place.
func (t *touched) concerns(k placeKey) bool {
	return t.kinds[k.kind] || t.resources[k.resource.Resource] || k.resource.Resource == "" && len(t.resources) > 0
}

// Programs returns all Programs in order. The list is shared: do not change it.
func (x *Index) Programs() []*policy.Program { return x.programs }

// Lookup returns the Programs whose rules of the given stages may match the request, each with those rules in order. It
// never leaves out a rule that Match would accept; Match has still to be asked. Programs that are switched off for the
// request's origin are left out, and namespaced ones for objects outside their namespace.
//
// With StageMutate among the stages the object's labels exclude nothing, since an earlier rule may set a label that a
// later one selects by; everyone else must look up again with the mutated object. The result is shared: do not change
// it.
func (x *Index) Lookup(r *policy.Request, stages policy.Stage) []policy.Selection {
	return x.Query(r, Query{Stages: stages})
}

// Reads returns what the rules that Query may return read of the object of r, which need not be there yet; nil when that may be
// anything.
func (x *Index) Reads(r *policy.Request, q Query) *value.Fields {
	return x.place(r).view(x.order, r, q).reads
}

// Query is Lookup with more conditions.
func (x *Index) Query(r *policy.Request, q Query) []policy.Selection {
	return x.place(r).view(x.order, r, q).lookup(r)
}
