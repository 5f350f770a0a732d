package validating

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
)

// Compile returns the Program of a policy, which was decoded from the object of in. Program.Diags holds the mistakes; do not use a Program
// with an error among them.
func Compile(p *policiesv1beta1.ValidatingPolicy, in family.Source) *policy.Program {
	out := celpolicy.Outline(p.TypeMeta, p.ObjectMeta, common(&p.Spec))
	out.Unconfined = in.CommandLine
	allowance := in.Within()
	if m := checkModeOf(&p.Spec); m != nil && in.CommandLine {
		rule, diags := compileCheck(out, &p.Spec, m, allowance)
		out.Diags.Add(diags...)
		out.Rules = append(out.Rules, rule)
		return out
	}
	rule, diags := compileSpec(out, &p.Spec, "spec", allowance, in.Subresources())
	out.Diags.Add(diags...)
	out.Rules = append(out.Rules, rule)
	asks := celpolicy.WebhookInput{At: endpoints, Constraints: p.Spec.MatchConstraints, Conditions: p.Spec.MatchConditions, Configs: configs(&p.Spec), Subresources: in.Subresources()}
	rewritten := map[string][]admissionregistrationv1.MatchCondition{}
	for _, c := range asks.Configs {
		spec, mistakes := generated(&p.Spec, in.Object, c)
		rewritten[c.Key] = spec.MatchConditions
		rule, found := compileSpec(out, spec, "status.autogen.configs["+c.Key+"].spec", allowance, false)
		rule.Index = len(out.Rules)
		rule.Origin = celpolicy.Origin(c.Key)
		if !out.Diags.HasErrors() { // otherwise the mistakes are already reported
			out.Diags.Add(append(mistakes, found...)...)
		}
		if c.Template == "" {
			extract(rule)
		}
		out.Rules = append(out.Rules, rule)
	}
	if mode(&p.Spec) == env.JSON {
		return out // requests do not evaluate the policy
	}
	asks.Rewritten = func(c celpolicy.Config) []admissionregistrationv1.MatchCondition { return rewritten[c.Key] }
	out.Webhooks = celpolicy.Webhooks(out, asks)
	return out
}

func common(spec *policiesv1beta1.ValidatingPolicySpec) celpolicy.Common {
	c := celpolicy.Common{FailurePolicy: spec.FailurePolicy, Webhook: spec.WebhookConfiguration}
	if e := spec.Evaluation; e != nil {
		c.Admission, c.Background = e.Admission, e.Background
	}
	return c
}

func mode(spec *policiesv1beta1.ValidatingPolicySpec) env.Mode {
	if spec.Evaluation != nil && spec.Evaluation.Mode == policiesv1beta1.EvaluationModeJSON {
		return env.JSON
	}
	return env.Kubernetes
}

// configs returns the configurations of the policies that are generated from the spec. A policy for documents has no constraints.
func configs(spec *policiesv1beta1.ValidatingPolicySpec) []celpolicy.Config {
	if mode(spec) == env.JSON {
		return nil
	}
	var settings *policiesv1beta1.PodControllers
	if spec.Autogen != nil {
		settings = spec.Autogen.PodControllers
	}
	return celpolicy.Configs(spec.MatchConstraints, settings)
}

// generated returns the spec of a generated policy.
func generated(spec *policiesv1beta1.ValidatingPolicySpec, object map[string]any, c celpolicy.Config) (*policiesv1beta1.ValidatingPolicySpec, diag.List) {
	out, diags := spec.DeepCopy(), diag.List(nil)
	if c.Template != "" {
		out = &policiesv1beta1.ValidatingPolicySpec{}
		diags = strict.DecodeAt("spec", celpolicy.Rewrite(object["spec"], c.Template), out)
		diags = slices.DeleteFunc(diags, func(d diag.Diagnostic) bool { return d.Code == diag.UnknownField }) // Decode reports them
	}
	out.MatchConstraints = c.Constraints
	return out, diags
}

// Autogen returns the generated policies of a policy for its status. object is the decoded object.
func Autogen(p *policiesv1beta1.ValidatingPolicy, object map[string]any) map[string]policiesv1beta1.ValidatingPolicyAutogenConfig {
	out := map[string]policiesv1beta1.ValidatingPolicyAutogenConfig{}
	for _, c := range configs(&p.Spec) {
		spec, _ := generated(&p.Spec, object, c)
		out[c.Key] = policiesv1beta1.ValidatingPolicyAutogenConfig{Targets: c.Targets, Spec: *spec}
	}
	return out
}

// compileSpec returns the rule for a spec. subresources is that of celpolicy.Input.
func compileSpec(p *policy.Program, spec *policiesv1beta1.ValidatingPolicySpec, path string, a *compilecost.Allowance, subresources bool) (*policy.Rule, diag.List) {
	mode := mode(spec)
	subject, c := celpolicy.Compile(p, celpolicy.Input{
		Kind: env.Validating, Mode: mode, Constraints: spec.MatchConstraints,
		Conditions: spec.MatchConditions, Variables: spec.Variables, Allowance: a, Path: path, Subresources: subresources,
	})
	for i := range spec.Validations {
		v := c.Validation(&spec.Validations[i], fmt.Sprintf("%s.validations[%d]", path, i), typecheck.String)
		subject.Rule.Validations = append(subject.Rule.Validations, v)
	}
	for i := range spec.AuditAnnotations {
		a := c.Annotation(&spec.AuditAnnotations[i], fmt.Sprintf("%s.auditAnnotations[%d]", path, i))
		if mode == env.Kubernetes {
			subject.Rule.Annotations = append(subject.Rule.Annotations, a)
		}
	}
	rule := subject.NewRule(c)
	celpolicy.SetActions(rule, p, c, spec.ValidationActions, path)
	rule.Kind, rule.Stage, rule.OnError = RuleKind, policy.StageValidate, policy.ErrorByAction
	rule.AllowExisting = mode == env.Kubernetes && celpolicy.AllowsExisting(p.Annotations)
	rule.Annotates = len(subject.Rule.Annotations) > 0
	rule.Eval = (&evaluator{rule: &subject.Rule, unlisted: subject.Unlisted, json: mode == env.JSON}).evaluate
	if c.Diags.HasErrors() {
		rule.Eval = celpolicy.Broken(c.Diags)
	}
	return rule, c.Diags
}
