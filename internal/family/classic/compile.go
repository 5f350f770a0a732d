package classic

import (
	"fmt"
	"slices"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rule"
)

// Compile returns the Program of a policy: its settings, its rules and their autogen rules for Pod controllers. Program.Diags holds the
// mistakes; a rule with a mistake evaluates to status error. Do not change p after the call.
func Compile(p *kyvernov1.ClusterPolicy) *policy.Program {
	return compileWithin(p, &compilecost.Allowance{})
}

func compileWithin(p *kyvernov1.ClusterPolicy, allowance *compilecost.Allowance) *policy.Program {
	out := &policy.Program{
		APIVersion: p.APIVersion, Kind: p.Kind, Name: p.Name,
		UID: string(p.UID), Generation: p.Generation, ResourceVersion: p.ResourceVersion,
		Labels: p.Labels, Annotations: p.Annotations,
		Settings: settings(p),
	}
	if namespaced(p) {
		out.Namespace = p.Namespace
		if out.Namespace == "" {
			out.Namespace = "default" // the default of kubectl
		}
	}
	for i := range p.Spec.Rules {
		addRule(out, p, &p.Spec.Rules[i], i, policy.Origin{}, allowance)
	}
	generated, err := autogen.Expand(p.Spec.Rules, p.Annotations)
	if err != nil {
		out.Diags.Errorf("spec.rules", "%v", err)
	}
	for i := range generated {
		addRule(out, p, &generated[i].Rule, generated[i].Parent, generated[i].Origin, allowance)
	}
	if w := p.Spec.WebhookConfiguration; w != nil {
		guard(out, w.MatchConditions, allowance.Version())
	}
	out.Webhooks = Webhooks(out)
	return out
}

func addRule(out *policy.Program, p *kyvernov1.ClusterPolicy, r *kyvernov1.Rule, authored int, origin policy.Origin, allowance *compilecost.Allowance) {
	path := "spec.rules[" + strconv.Itoa(authored) + "]"
	plan, diags := action(&p.Spec, r, path)
	compiled, moreDiags := rule.Compile(r, rule.Input{
		Namespace: out.Namespace, Path: path, Index: len(out.Rules), Origin: origin, Action: plan, Allowance: allowance,
	})
	compiled.Generation, compiled.OnPolicyChange = generation(&p.Spec, r), onPolicyChange(&p.Spec, r)
	out.Rules = append(out.Rules, compiled)
	for _, d := range append(diags, moreDiags...) {
		// A mistake in an authored rule also appears in its autogen rules, and a mistake in the policy's overrides appears in every
		// rule. Each is reported once.
		if origin.IsAutogen() {
			if d.Severity == diag.Warning || out.Diags.HasErrors() {
				continue
			}
			d.Summary = fmt.Sprintf("in the generated rule %s: %s", r.Name, d.Summary)
		}
		if !slices.Contains(out.Diags, d) {
			out.Diags.Add(d)
		}
	}
}
