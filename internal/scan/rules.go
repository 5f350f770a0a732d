package scan

import (
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
)

// rules are the rules whose results are reported; the value is true if scans evaluate the rule.
type rules map[report.Rule]bool

func rulesOf(s *catalog.Snapshot) rules {
	out := rules{}
	for _, p := range s.Programs() {
		if _, off := p.Labels[ephemeral.DisabledLabel]; off {
			continue
		}
		for _, r := range p.Rules {
			at := report.RuleIn(p, r)
			if !r.NoScan || !r.ReportsTargets { // otherwise all results are about targets
				out[at] = out[at] || ephemeral.Scanned(p, r)
			}
			if at.Target = true; r.ReportsTargets {
				out[at] = false
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

// Elsewhere reports whether the rule exists and is reported, and scans do not evaluate it.
func (k rules) Elsewhere(r report.Rule) bool {
	scanned, live := k[r]
	return live && !scanned
}
