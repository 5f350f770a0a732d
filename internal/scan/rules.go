package scan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// rules are the rules whose results are reported, with those of their policy that scans evaluate.
type rules map[report.Rule][]*policy.Rule

func rulesOf(s *catalog.Snapshot) rules {
	out := rules{}
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
func (k rules) Live(r report.Rule) bool {
	_, live := k[r]
	return live
}

// Elsewhere reports whether the rule exists and is reported, and scans do not evaluate it for objects of the kind.
func (k rules) Elsewhere(kind schema.GroupKind, r report.Rule) bool {
	scanned, live := k[r]
	return live && (len(scanned) == 0 || ephemeral.OnlyAsked(scanned, kind))
}
