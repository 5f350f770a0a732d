package scan

import (
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Omission is something that a policy with background: true names and scans leave out: a rule, or a kind.
type Omission struct{ Rule, Kind, Reason string }

// These are the reasons why scans do not evaluate a rule.
const (
	reasonUser        = "it asks who sent the request, which is not known of what exists already"
	reasonSubresource = "it is about sub-resources, which are only seen in requests"
	reasonOperation   = "it is about other operations than CREATE, which are only seen in requests"
)

// omittedRules are the validate rules of the policy by which scans do not evaluate.
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

// Omissions are what scans leave out at the moment, by policy, each in order.
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

// Unlistable are the kinds that cannot be read at the moment, in order.
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

// setUnlistable takes in whether the kind can be read, and reports a change.
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
