package scan

import (
	"slices"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
)

// set is a kind with the policies that name it. It is immutable.
type set struct {
	resource Resource
	snapshot *catalog.Snapshot
	programs []*policy.Program
	rules    rules
	// revision is another one as soon as the policies are.
	revision uint64
	// changes are what made the last revisions, the last at the end; each followed the one before.
	changes []change
	// namespaceLabels: some rule looks at the labels of namespaces.
	namespaceLabels bool
}

// change is a change of a set: the policies that came, went, or are others now.
type change struct {
	revision uint64
	policies map[report.ID]bool
}

// maxChanges is how many changes are remembered: what was evaluated before them is evaluated by all policies.
const maxChanges = 64

// after makes s the set that comes after old, under the revision when the policies differ. It reports whether they do.
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

// shares reports whether results of other policies depend on those of the policy.
func shares(p *policy.Program) bool {
	return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Shared })
}

// changed is the set under another revision, because of the policies.
func (s *set) changed(revision uint64, policies map[report.ID]bool) *set {
	next := *s
	next.revision = revision
	next.changes = append(slices.Clone(s.changes[max(0, len(s.changes)-maxChanges+1):]), change{revision, policies})
	return &next
}

// since are the policies that have changed since the revision; nil when that is not known.
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

// selections are the policies to evaluate the request by, of those in only; nil for all.
func (s *set) selections(req *policy.Request, only map[report.ID]bool) []policy.Selection {
	all := s.snapshot.For(req, catalog.Route{Stages: ephemeral.ScanStages})
	out := make([]policy.Selection, 0, len(all))
	for _, sel := range all {
		if only != nil && !only[report.IDOf(sel.Program)] {
			continue
		}
		// The list is shared, and nearly always all of it is wanted.
		if i := slices.IndexFunc(sel.Rules, func(r *policy.Rule) bool { return !ephemeral.Scannable(sel.Program, r) }); i >= 0 {
			sel.Rules = slices.DeleteFunc(slices.Clone(sel.Rules), func(r *policy.Rule) bool { return !ephemeral.Scannable(sel.Program, r) })
		}
		if len(sel.Rules) > 0 {
			out = append(out, sel)
		}
	}
	return out
}
