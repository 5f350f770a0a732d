package scan

import (
	"slices"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/value"
)

// set is a kind with the policies that name it. It is immutable.
type set struct {
	resource Resource
	snapshot *catalog.Snapshot
	programs []*policy.Program
	rules    Rules
	// revision changes whenever the policies do.
	revision uint64
	// changes are the latest changes, the last one at the end; each belongs to one revision.
	changes []change
	// namespaceLabels: some rule reads the labels of namespaces.
	namespaceLabels bool
}

// change is a change of a set: the policies that were added, removed or changed.
type change struct {
	revision uint64
	policies map[report.ID]bool
}

// maxChanges is the number of changes that are remembered. Objects that were evaluated before them are evaluated with all policies.
const maxChanges = 64

// after makes s the successor of old, with the new revision if the policies differ. It reports whether they do.
func (s *set) after(old *set, revision uint64) (changed bool) {
	policies, together := map[report.ID]bool{}, false
	for _, pair := range [][2][]*policy.Program{{old.programs, s.programs}, {s.programs, old.programs}} {
		for _, p := range pair[0] {
			if !slices.Contains(pair[1], p) {
				policies[report.IDOf(p)] = true
				together = together || shares(p)
			}
		}
	}
	for _, p := range s.programs {
		if together && shares(p) {
			policies[report.IDOf(p)] = true
		}
	}
	s.revision, s.changes = old.revision, old.changes
	if len(policies) == 0 {
		return false
	}
	*s = *s.changed(revision, policies)
	return true
}

// shares reports whether results of other policies depend on results of the policy.
func shares(p *policy.Program) bool {
	return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Shared })
}

// changed returns a copy of the set with another revision, because of a change of the policies.
func (s *set) changed(revision uint64, policies map[report.ID]bool) *set {
	next := *s
	next.revision = revision
	next.changes = append(slices.Clone(s.changes[max(0, len(s.changes)-maxChanges+1):]), change{revision, policies})
	return &next
}

// since returns the policies that changed after the revision; nil if the set no longer knows.
func (s *set) since(revision uint64) map[report.ID]bool {
	out := map[report.ID]bool{}
	for _, c := range slices.Backward(s.changes) {
		if c.revision == revision {
			return out
		}
		for id := range c.policies {
			out[id] = true
		}
	}
	return nil
}

// elsewhere reports whether other processes find the results of a rule about objects of the kind.
func (s *set) elsewhere(r report.Rule) bool {
	return s.rules.Elsewhere(s.resource.GVK().GroupKind(), r)
}

// route selects the rules that scans evaluate.
var route = catalog.Route{Stages: ephemeral.ScanStages}

// reads returns the fields of the request's object that the policies read; nil if they may read any field.
func (s *set) reads(req *policy.Request) *value.Fields { return s.snapshot.Reads(req, route) }

// selections returns the policies to evaluate for the request, limited to only; a nil map means all policies.
func (s *set) selections(req *policy.Request, only map[report.ID]bool) []policy.Selection {
	all := s.snapshot.For(req, route)
	out := make([]policy.Selection, 0, len(all))
	for _, sel := range all {
		if only != nil && !only[report.IDOf(sel.Program)] {
			continue
		}
		// The list is shared and usually needed in full, so it is copied only if a rule is not scannable.
		if i := slices.IndexFunc(sel.Rules, func(r *policy.Rule) bool { return !ephemeral.Scannable(sel.Program, r) }); i >= 0 {
			sel.Rules = slices.DeleteFunc(slices.Clone(sel.Rules), func(r *policy.Rule) bool { return !ephemeral.Scannable(sel.Program, r) })
		}
		if len(sel.Rules) > 0 {
			out = append(out, sel)
		}
	}
	return out
}
