package native

import (
	"context"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// subject is the common part of both kinds of policies: constraints, parameters, conditions and variables.
type subject struct {
	bindings  []*Binding
	allowance *compilecost.Allowance
	match     *constraint.Constraints
	paramKind *admissionregistrationv1.ParamKind
	rule      celrule.Rule
	reads     policy.Needs // the needs of its expressions
}

// outline returns a Program of the policy without its rule.
func outline(kind metav1.TypeMeta, meta metav1.ObjectMeta, failure *admissionregistrationv1.FailurePolicyType) *policy.Program {
	out := &policy.Program{
		APIVersion: kind.APIVersion, Kind: kind.Kind, Name: meta.Name, UID: string(meta.UID),
		Generation: meta.Generation, ResourceVersion: meta.ResourceVersion, Labels: meta.Labels, Annotations: meta.Annotations,
		Settings: policy.Settings{Background: true, FailurePolicy: policy.Fail},
	}
	out.Settings.Annotate(meta.Annotations)
	if failure != nil && *failure == admissionregistrationv1.Ignore {
		out.Settings.FailurePolicy = policy.Ignore
	}
	return out
}

// about compiles the constraints and parameters of the policy.
func (p *subject) about(m *admissionregistrationv1.MatchResources, params *admissionregistrationv1.ParamKind) (diags diag.List) {
	p.paramKind = params
	p.match, diags = constraint.Compile(m, "spec.matchConstraints", constraint.Options{})
	if m == nil || len(m.ResourceRules) == 0 {
		diags.Errorf("spec.matchConstraints.resourceRules", "a policy needs matchConstraints with resource rules")
	}
	return diags
}

// needs returns the needs of the policy's rule.
func (p *subject) needs() policy.Needs {
	needs := policy.Needs{Lookups: p.paramKind != nil, NamespaceLabels: true, OldObject: true}
	needs.Merge(p.reads)
	return needs
}

// compile compiles the variables and conditions. The caller compiles the other expressions with the Compiler and then calls done.
func (p *subject) compile(variables []admissionregistrationv1.Variable, conditions []admissionregistrationv1.MatchCondition) *celrule.Compiler {
	c := celrule.New(env.Declarations{Params: p.paramKind != nil, Server: p.allowance.Version()}, p.allowance)
	c.Variables(variables, "spec.variables")
	p.rule.Conditions = c.Conditions(conditions, "spec.matchConditions")
	return c
}

// done stores the variables of the policy and the needs of its expressions.
func (p *subject) done(c *celrule.Compiler) diag.List {
	p.rule.Named = c.Named()
	p.reads = c.Needs()
	return c.Diags
}

// matches reports whether the constraints of the policy select the request and, if there are bindings, those of at least one binding.
func (p *subject) matches(ctx context.Context, r *policy.Request) (bool, error) {
	ok, err := p.match.Match(ctx, r)
	if !ok || err != nil || len(p.bindings) == 0 {
		return ok, err
	}
	bound, err := p.bound(ctx, r)
	return len(bound) > 0, err
}

// bound returns the bindings whose constraints select the request.
func (p *subject) bound(ctx context.Context, r *policy.Request) ([]*Binding, error) {
	var out []*Binding
	for _, b := range p.bindings {
		if b.match != nil {
			if ok, err := b.match.Match(ctx, r); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// inputs returns the variables of expressions for a binding: one Input for each of its parameters, and at least one. b is nil for a
// policy without bindings.
func (p *subject) inputs(c *policy.Call, b *Binding) ([]*run.Input, error) {
	in, err := celrule.Input(c)
	if err != nil {
		return nil, err
	}
	if b == nil || b.params == nil || p.paramKind == nil {
		return []*run.Input{in}, nil
	}
	found, err := b.params.Find(c, *p.paramKind)
	if err != nil {
		return nil, err
	}
	if b.params.Selects() {
		found = withItems(found)
	}
	out := make([]*run.Input, len(found))
	for i, param := range found {
		with := *in
		with.Params = param
		out[i] = &with
	}
	return out, nil
}

// withItems adds the list of all parameters to each of them, as items, if there are several. The API server evaluates an expression for
// each parameter; Kyverno's command line evaluates it once for the list.
func withItems(found []map[string]any) []map[string]any {
	items := make([]any, len(found))
	for i, o := range found {
		items[i] = o
	}
	out := make([]map[string]any, len(found))
	for i, o := range found {
		out[i] = o
		if _, has := o["items"]; !has {
			out[i] = maps.Clone(o)
			out[i]["items"] = items
		}
	}
	return out
}
