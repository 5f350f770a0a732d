package match

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Index finds, among many Programs, the rules that may match a request. It is immutable to its callers and safe for all
// goroutines.
//
// Rules are filed under the literal kinds of their match blocks. What a request of one kind and operation may need is
// worked out when the first such request comes and kept as a view (see view.go), so a lookup costs the same with one
// Program or a thousand for other kinds.
type Index struct {
	programs []*policy.Program // in order
	order    func(a, b *policy.Program) int
	kinds    map[string]*kindIndex
	wild     []entry    // entries whose kind has wildcards: candidates for every kind
	other    *kindIndex // for the kinds that no entry names
}

// entry is one target of one rule.
type entry struct {
	program *policy.Program
	rule    *policy.Rule
	target  *policy.Target
}

// Query says which of the Programs for a request are wanted. It is comparable.
type Query struct {
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

// NewIndex files programs. Lookups answer cluster-scoped policies before namespaced ones, each by name.
func NewIndex(programs []*policy.Program) *Index {
	return build(programs, Compare)
}

// NewOrderedIndex files programs; lookups answer them in the order in which they were given, as the command line
// applies policies in the order in which it loaded them.
func NewOrderedIndex(programs []*policy.Program) *Index {
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
	x := &Index{order: order, programs: slices.Clone(programs), kinds: map[string]*kindIndex{}}
	slices.SortStableFunc(x.programs, order)
	for _, p := range x.programs {
		x.add(p)
	}
	x.other = &kindIndex{wild: x.wild}
	for _, k := range x.kinds {
		k.wild = x.wild
	}
	return x
}

// add files the entries of p in an index that is not shared yet.
func (x *Index) add(p *policy.Program) {
	entries(p, func(e entry) {
		if wildcard.Has(e.target.Kind) {
			x.wild = append(x.wild, e)
			return
		}
		k := x.kinds[e.target.Kind]
		if k == nil {
			k = &kindIndex{}
			x.kinds[e.target.Kind] = k
		}
		k.entries = append(k.entries, e)
	})
}

func entries(p *policy.Program, f func(entry)) {
	for _, r := range p.Rules {
		for i := range r.Targets {
			f(entry{p, r, &r.Targets[i]})
		}
	}
}

// With returns an index in which the Programs of removed are replaced by those of added. Views for kinds that neither
// names are kept; only an entry with a wildcard kind makes all of them be worked out again. It is for indexes of
// NewIndex.
func (x *Index) With(removed, added []*policy.Program) *Index {
	gone := make(map[*policy.Program]bool, len(removed))
	for _, p := range removed {
		gone[p] = true
	}
	out := &Index{order: x.order, kinds: maps.Clone(x.kinds), wild: x.wild, other: x.other}
	out.programs = slices.DeleteFunc(slices.Clone(x.programs), func(p *policy.Program) bool { return gone[p] })
	for _, p := range added {
		at, _ := slices.BinarySearchFunc(out.programs, p, x.order)
		out.programs = slices.Insert(out.programs, at, p)
	}

	touched, wild := map[string]bool{}, false
	touch := func(e entry) {
		if wildcard.Has(e.target.Kind) {
			wild = true
		} else {
			touched[e.target.Kind] = true
		}
	}
	for _, p := range removed {
		entries(p, touch)
	}
	for _, p := range added {
		entries(p, touch)
	}

	keep := func(list []entry) []entry {
		return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return gone[e.program] })
	}
	if wild {
		out.wild = keep(x.wild)
	}
	for name := range touched {
		k := &kindIndex{}
		if old := out.kinds[name]; old != nil {
			k.entries = keep(old.entries)
		}
		out.kinds[name] = k
	}
	for _, p := range added {
		out.add(p)
	}
	for name, k := range out.kinds {
		switch {
		case touched[name]:
			if k.wild = out.wild; len(k.entries) == 0 {
				delete(out.kinds, name)
			}
		case wild:
			out.kinds[name] = &kindIndex{entries: k.entries, wild: out.wild}
		}
	}
	if wild {
		out.other = &kindIndex{wild: out.wild}
	}
	return out
}

// Programs are all Programs in order. The list is shared: do not change it.
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

// Reads is what the rules that Query may return read of the object of r, which need not be there yet; nil when that may be
// anything.
func (x *Index) Reads(r *policy.Request, q Query) *value.Fields {
	return x.kind(r).view(x.order, r, q).reads
}

// Query is Lookup with more conditions.
func (x *Index) Query(r *policy.Request, q Query) []policy.Selection {
	return x.kind(r).view(x.order, r, q).lookup(r)
}

func (x *Index) kind(r *policy.Request) *kindIndex {
	if k := x.kinds[r.GVK.Kind]; k != nil {
		return k
	}
	return x.other
}
