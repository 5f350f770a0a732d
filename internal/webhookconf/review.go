package webhookconf

import (
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// Texts of the warnings. %s is the rule, if it has a name, followed by the kinds. The API server cuts warnings that exceed 256 characters.
const (
	textUnasked  = "no request is evaluated by the policy: its webhook would have to name it, and with --autoUpdateWebhooks=false the webhooks stay as they are"
	textWildcard = "%sthe wildcard in %s costs a call for each request that it covers; it does not bring Events, Leases, Endpoints, " +
		"reviews, reports, Nodes, CSRs and Ephor's own kinds: name a kind to have it evaluated"
	textBootstrap = "%swhile Ephor does not answer, every request for %s is refused (failurePolicy Fail), and nodes and controllers need " +
		"them to come back: set failurePolicy Ignore unless this is intended"
)

// Review warns the author of a policy about the effects of its kind selectors on the webhooks: the cost of wildcards, and the risk of kinds
// that the cluster needs to recover. known resolves selectors; if it fails, the risk is not reported. fixed means that the webhooks do not
// follow the policies (Options.Static). A match condition that the API server does not accept is an error; all other diagnostics are
// warnings.
func Review(p *policy.Program, known discovery.Resources, server *Conditions, fixed bool) diag.List {
	var diags diag.List
	if !p.Settings.Admission {
		return nil
	}
	for i := range p.Webhooks {
		if at, err := server.refused(&p.Webhooks[i]); err != nil {
			diags.Errorf(conditionsPath+"["+strconv.Itoa(at)+"].expression", "%v", err)
			diags.Hint("use functions of that version, or a condition in the rules")
			break // the webhooks have the same conditions
		}
	}
	if fixed && withoutStatic(p) {
		diags.Warnf("spec", textUnasked)
		return diags
	}
	for _, r := range p.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		var wild, risky []string
		for _, t := range r.Targets {
			text := t.String()
			if t.Wild() {
				wild = appendNew(wild, text)
				continue
			}
			if p.Settings.FailurePolicy != policy.Fail {
				continue
			}
			found, err := known.Find(t)
			if err != nil {
				continue
			}
			for _, f := range found {
				if e := reservedFor(coverage.Found(f)); e != nil && e.Why == Bootstrap {
					risky = appendNew(risky, text)
				}
			}
		}
		if len(wild) > 0 {
			diags.Warnf(r.Path+".match", textWildcard, ruleBeginning(r), strings.Join(wild, ", "))
		}
		if len(risky) > 0 {
			diags.Warnf(r.Path+".match", textBootstrap, ruleBeginning(r), strings.Join(risky, ", "))
		}
	}
	return diags
}

// ruleBeginning returns the first words of a warning about a rule. The rule of a CEL policy has no name.
func ruleBeginning(r *policy.Rule) string {
	if r.Name == "" {
		return ""
	}
	return "rule " + r.Name + ": "
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
