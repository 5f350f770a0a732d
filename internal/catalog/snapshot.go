package catalog

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/index"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Snapshot is an immutable set of Programs with its index.
type Snapshot struct {
	version  uint64
	hash     Hash
	index    *index.Index
	programs map[ID]*policy.Program // with exceptions joined
	// authored are the same Programs without exceptions.
	authored   map[ID]*policy.Program
	exceptions map[policy.ExceptionID]*policy.Exception
	byPolicy   exceptionSet
}

// Route selects the Programs that evaluate a request. It corresponds to one row in the table of URL paths.
type Route struct {
	// Family limits the route to policies of that family; empty for all.
	Family string
	// Stages are the stages to run.
	Stages policy.Stage
	// FailurePolicy limits the route to Programs with that failure policy; nil for both.
	FailurePolicy *policy.FailurePolicy
	// Policies limits the route to the policies that the path names; nil for a path without names. On a path without names, policies with a
	// webhook of their own do not evaluate admission requests, since their match conditions were not checked.
	Policies IDs
	// FixedWebhooks: the webhooks do not follow the policies, so a timeout gives no policy a webhook of its own.
	FixedWebhooks bool
}

// NewStatic returns the Snapshot of a fixed set, for the command line. For keeps the given order, and several Programs with the same ID.
// The caller joins exceptions first (Join).
func NewStatic(programs []*policy.Program) *Snapshot {
	return newSnapshot(index.NewOrdered(programs), programs)
}

func newSnapshot(x *index.Index, programs []*policy.Program) *Snapshot {
	s := &Snapshot{index: x, programs: make(map[ID]*policy.Program, len(programs)), exceptions: map[policy.ExceptionID]*policy.Exception{}}
	for _, p := range programs {
		if _, again := s.programs[IDOf(p)]; !again {
			s.hash.toggle(p)
		}
		s.programs[IDOf(p)] = p
	}
	s.authored = maps.Clone(s.programs)
	return s
}

// changes are the changes of one call. Of several changes for one ID, the last one counts.
type changes struct {
	set    []*policy.Program
	remove []ID
	// exceptions maps IDs to the exceptions to set; a nil value removes the exception.
	exceptions map[policy.ExceptionID]*policy.Exception
}

// with returns the Snapshot after the changes, or nil if they change nothing.
func (s *Snapshot) with(c changes) *Snapshot {
	next := &Snapshot{version: s.version + 1, hash: s.hash, exceptions: s.exceptions, byPolicy: s.byPolicy}
	touched := next.except(s, c.exceptions)
	authored := make(map[ID]*policy.Program, len(c.set)+len(c.remove))
	order := make([]ID, 0, len(c.set)+len(c.remove))
	change := func(id ID, p *policy.Program) {
		if _, seen := authored[id]; !seen {
			order = append(order, id)
		}
		authored[id] = p
	}
	if touched != nil {
		for id, p := range s.authored {
			if touched.names(p) {
				change(id, p) // its exceptions may have changed
			}
		}
	}
	for _, p := range c.set {
		change(IDOf(p), p)
	}
	for _, id := range c.remove {
		change(id, nil)
	}

	var removed, added []*policy.Program
	for _, id := range order {
		p := authored[id]
		if p == s.authored[id] && (p == nil || !touched.names(p)) {
			delete(authored, id)
			continue
		}
		if old := s.programs[id]; old != nil {
			removed = append(removed, old)
			next.hash.toggle(old)
		}
		if p != nil {
			p = next.byPolicy.join(p)
			added = append(added, p)
			next.hash.toggle(p)
		}
	}
	if len(removed)+len(added) == 0 {
		if touched != nil {
			next.index, next.programs, next.authored = s.index, s.programs, s.authored
			return next
		}
		return nil
	}
	next.index = s.index.With(removed, added)
	next.programs = maps.Clone(s.programs)
	for _, p := range removed {
		delete(next.programs, IDOf(p))
	}
	for _, p := range added {
		next.programs[IDOf(p)] = p
	}
	next.authored = maps.Clone(s.authored)
	for id, p := range authored {
		if p == nil {
			delete(next.authored, id)
		} else {
			next.authored[id] = p
		}
	}
	return next
}

// except applies the changes to the exceptions of before and stores the result in s. It returns the keys of the policies that the changed
// exceptions name; nil if nothing changes.
func (s *Snapshot) except(before *Snapshot, change map[policy.ExceptionID]*policy.Exception) policyNames {
	var touched policyNames
	for id, e := range change {
		old := before.exceptions[id]
		if e == old {
			continue
		}
		if touched == nil {
			touched = policyNames{}
			s.exceptions = maps.Clone(before.exceptions)
		}
		delete(s.exceptions, id)
		if e != nil {
			s.exceptions[id] = e
		}
		for _, x := range []*policy.Exception{old, e} {
			if x != nil {
				for _, p := range policiesOf(x) {
					touched[p] = true
				}
			}
		}
	}
	if touched != nil {
		s.byPolicy = exceptionsOf(sortedExceptions(s.exceptions))
	}
	return touched
}

// policyNames are policies as exceptions name them: by key, or by bare name in any namespace.
type policyNames map[string]bool

func (n policyNames) names(p *policy.Program) bool { return n[p.Key()] || n[p.Name] }

// Exceptions returns all exceptions, sorted by their IDs.
func (s *Snapshot) Exceptions() []*policy.Exception { return sortedExceptions(s.exceptions) }

// Version counts the changes of the Catalog, so a later Snapshot has a higher version. Versions of different processes cannot be compared.
func (s *Snapshot) Version() uint64 { return s.version }

// Hash returns the hash of the set of Programs. It depends on their identities and generations, not on their order, and is the same in
// every process with the same policies.
func (s *Snapshot) Hash() Hash { return s.hash }

// Programs returns all Programs in the order of For. The list is shared: do not change it.
func (s *Snapshot) Programs() []*policy.Program { return s.index.Programs() }

// Get returns the Program with that ID, nil when there is none.
func (s *Snapshot) Get(id ID) *policy.Program { return s.programs[id] }

// For returns the Programs that evaluate the request on that route, in order, each with its candidate rules (package index). Cluster-scoped
// policies precede namespaced ones, each sorted by name; a static Snapshot keeps the given order. The result is shared: do not change it.
//
// A route with StageMutate returns all rules that the object may match after it was mutated; a caller that continues with the mutated
// object must call For again for other stages.
func (s *Snapshot) For(r *policy.Request, route Route) []policy.Selection {
	found := s.index.Query(r, route.query(r))
	if route.Policies == nil {
		return found
	}
	for i := range found {
		if route.Policies.Has(found[i].Program) {
			continue
		}
		named := slices.Clone(found[:i])
		for _, sel := range found[i+1:] {
			if route.Policies.Has(sel.Program) {
				named = append(named, sel)
			}
		}
		return named
	}
	return found
}

// Covers reports whether the Program evaluates the requests on the route that its rules match, as in For.
func (route *Route) Covers(p *policy.Program) bool {
	switch {
	case route.Family != "" && route.Family != p.Family,
		route.FailurePolicy != nil && *route.FailurePolicy != p.Settings.FailurePolicy:
		return false
	case route.Policies == nil:
		return !p.OwnWebhook(route.FixedWebhooks)
	}
	return route.Policies.Has(p)
}

// Reads returns the fields of the request's object that the rules of For may read; nil if they may read any field. The object may still be
// missing.
func (s *Snapshot) Reads(r *policy.Request, route Route) *value.Fields {
	return s.index.Reads(r, route.query(r))
}

// query returns the query of the index for a request on the route.
func (route *Route) query(r *policy.Request) index.Query {
	q := index.Query{Family: route.Family, Stages: route.Stages, SharedOnly: route.Policies == nil && r.Origin == policy.FromAdmission, FixedWebhooks: route.FixedWebhooks}
	if route.FailurePolicy != nil {
		q.FailurePolicy = index.OnlyFail
		if *route.FailurePolicy == policy.Ignore {
			q.FailurePolicy = index.OnlyIgnore
		}
	}
	return q
}
