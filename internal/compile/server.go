package compile

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/pss"
)

// Changes returns what a new version of the API server changes about a policy: its mistakes, and the Pod Security Standards that its rules
// follow. old and now are the Programs of the same object for both versions. It returns nil if both mean the same.
func Changes(old, now *policy.Program) *policy.ServerChange {
	from, to := old.Server.Known(), now.Server.Known()
	if from == to {
		return nil
	}
	out := &policy.ServerChange{From: from, To: to}
	before, after := mistakesOf(old), mistakesOf(now)
	for _, m := range after {
		if !slices.Contains(before, m) {
			out.What = append(out.What, m)
		}
	}
	for _, m := range before {
		if !slices.Contains(after, m) {
			out.What = append(out.What, "no longer a mistake: "+m)
		}
	}
	for _, r := range now.Rules {
		if r.Latest == "" || r.Origin.IsAutogen() {
			continue
		}
		if checks := pss.Changes(r.Latest, from, to); len(checks) > 0 {
			out.What = append(out.What, "rule "+r.Name+": the latest Pod Security Standard changes the checks "+strings.Join(checks, ", "))
		}
	}
	if len(out.What) == 0 {
		return nil
	}
	return out
}

// mistakesOf returns the mistakes because of which rules of a Program fail.
func mistakesOf(p *policy.Program) (out []string) {
	for _, d := range p.Diags.Errors() {
		text := d.Summary
		if d.Path != "" {
			text = d.Path + ": " + text
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
