package scan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// Rules are the rules whose results are reported, each with the rules of its policy that scans evaluate under its name.
type Rules map[report.Rule][]*policy.Rule

// RulesOf returns the rules of the policies.
func RulesOf(s *catalog.Snapshot) Rules {
	out := Rules{}
	for _, p := range s.Programs() {
		if _, off := p.Labels[ephemeral.DisabledLabel]; off {
			continue
		}
		for _, r := range p.Rules {
			at := report.RuleIn(p, r)
			if !r.NoScan || !r.ReportsTargets { // otherwise all results are about targets
				scanned := out[at]
				if ephemeral.Scannable(p, r) && slices.ContainsFunc(r.Targets, func(t policy.Target) bool { return ephemeral.Covers(&t) }) {
					scanned = append(scanned, r)
				}
				out[at] = scanned
			}
			if at.Target = true; r.ReportsTargets {
				out[at] = nil
			}
		}
	}
	return out
}

// Live reports whether the rule exists and is reported.
func (k Rules) Live(r report.Rule) bool {
	_, live := k[r]
	return live
}

// Elsewhere reports whether the rule exists and is reported, and scans do not evaluate it for objects of the kind.
func (k Rules) Elsewhere(kind schema.GroupKind, r report.Rule) bool {
	scanned, live := k[r]
	return live && (len(scanned) == 0 || ephemeral.OnlyAsked(scanned, kind))
}

// Unscanned returns the rules of the policies for a process that scans nothing: all their results come from other sources.
func Unscanned(s *catalog.Snapshot) Rules {
	k := RulesOf(s)
	for r := range k {
		k[r] = nil
	}
	return k
}
