package scan

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
)

// Omission is a rule or kind of a policy with background: true that scans skip.
type Omission struct{ Rule, Kind, Reason string }

// The reasons why scans do not evaluate a rule.
const (
	reasonUser        = "it depends on the requester, which is not known for existing resources"
	reasonSubresource = "it matches subresources, which exist only in requests"
	reasonOperation   = "it matches operations other than CREATE, which exist only in requests"
)

// omittedRules returns the validate rules of the policy that scans skip.
func omittedRules(p *policy.Program) []Omission {
	if _, off := p.Labels[ephemeral.DisabledLabel]; off || !p.Settings.Background {
		return nil
	}
	var out []Omission
	for _, r := range p.Rules {
		if !r.Stage.Has(ephemeral.ScanStages) || r.NoScan {
			continue
		}
		reason := ""
		switch {
		case !ephemeral.Scannable(p, r):
			reason = reasonUser
		case !slices.ContainsFunc(r.Targets, func(t policy.Target) bool { return t.Main() }):
			reason = reasonSubresource
		case !slices.ContainsFunc(r.Targets, func(t policy.Target) bool { return ephemeral.Covers(&t) }):
			reason = reasonOperation
		}
		if reason != "" && len(r.Targets) > 0 {
			out = append(out, Omission{Rule: r.Name, Reason: reason})
		}
	}
	return out
}

// Omissions returns what scans currently skip, by policy, each list sorted.
func (s *Scanner) Omissions() map[catalog.ID][]Omission {
	out := map[catalog.ID][]Omission{}
	for _, p := range s.o.Catalog.Snapshot().Programs() {
		if o := omittedRules(p); len(o) > 0 {
			out[catalog.IDOf(p)] = o
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		reason := l.unlistable.Load()
		if reason == nil {
			continue
		}
		set := l.set.Load()
		gvk := set.resource.GVK()
		kind := gvk.GroupVersion().String() + "/" + gvk.Kind
		for _, p := range set.programs {
			id := catalog.IDOf(p)
			out[id] = append(out[id], Omission{Kind: kind, Reason: *reason})
		}
	}
	for _, o := range out {
		slices.SortStableFunc(o, func(a, b Omission) int { return strings.Compare(a.Kind, b.Kind) })
	}
	return out
}

// Unlistable returns the kinds that currently cannot be listed, sorted.
func (s *Scanner) Unlistable() []string {
	var out []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		if l.unlistable.Load() != nil {
			out = append(out, l.set.Load().resource.GVK().GroupKind().String())
		}
	}
	slices.Sort(out)
	return out
}

// setUnlistable records whether the kind can be listed, and reports a change.
func (l *loop) setUnlistable(err error) {
	var reason *string
	if err != nil {
		text := err.Error()
		reason = &text
	}
	old := l.unlistable.Swap(reason)
	if l.s.o.Omitted != nil && (old == nil) != (reason == nil) {
		l.s.o.Omitted()
	}
}
