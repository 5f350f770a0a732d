package native

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// subject is what both kinds of policies have: what they are about, and with which parameters.
type subject struct {
	bindings   []*Binding
	match      *constraints
	paramKind  *admissionregistrationv1.ParamKind
	conditions plugincel.ConditionEvaluator  // nil without conditions
	compiler   *plugincel.CompositedCompiler // holds the variables
}

// outline is a Program of the policy without its rule.
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

// about takes in what the policy is about.
func (p *subject) about(m *admissionregistrationv1.MatchResources, params *admissionregistrationv1.ParamKind) (diags diag.List) {
	p.paramKind = params
	if m == nil || len(m.ResourceRules) == 0 {
		diags.Errorf("spec.matchConstraints.resourceRules", "a policy needs the resources that it is about")
		return diags
	}
	p.match, diags = compileConstraints(m, "spec.matchConstraints")
	return diags
}

// needs are what the rule of the policy needs.
func (p *subject) needs() policy.Needs {
	return policy.Needs{Lookups: p.paramKind != nil, NamespaceLabels: true, OldObject: true}
}

// compile compiles the conditions and variables as the API server does.
func (p *subject) compile(variables []admissionregistrationv1.Variable, conditions []admissionregistrationv1.MatchCondition) (options plugincel.OptionalVariableDeclarations, diags diag.List) {
	options = plugincel.OptionalVariableDeclarations{HasParams: p.paramKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		diags.Errorf("spec", "%v", err)
		return options, diags
	}
	p.compiler = compiler
	for i, v := range variables {
		accessor := &expression{v.Name, v.Expression, cel.DynType}
		result := compiler.CompileAndStoreVariable(accessor, options, environment.StoredExpressions)
		if result.Error != nil {
			diags.Errorf(fmt.Sprintf("spec.variables[%d].expression", i), "%v", result.Error)
		}
	}
	if len(conditions) > 0 {
		accessors := make([]plugincel.ExpressionAccessor, len(conditions))
		for i := range conditions {
			accessors[i] = &expression{conditions[i].Name, conditions[i].Expression, cel.BoolType}
		}
		evaluator := compiler.CompileCondition(accessors, options, environment.StoredExpressions)
		for _, err := range evaluator.CompilationErrors() {
			diags.Errorf("spec.matchConditions", "%v", err)
		}
		p.conditions = evaluator
	}
	return options, diags
}

// matches reports whether the constraints select the request, and those of a binding if there are any.
func (p *subject) matches(ctx context.Context, r *policy.Request) (bool, error) {
	ok, err := p.match.match(ctx, r)
	if !ok || err != nil || len(p.bindings) == 0 {
		return ok, err
	}
	bound, err := p.bound(ctx, r)
	return len(bound) > 0, err
}

// bound are the bindings whose constraints select the request.
func (p *subject) bound(ctx context.Context, r *policy.Request) ([]*Binding, error) {
	var out []*Binding
	for _, b := range p.bindings {
		if b.match != nil {
			if ok, err := b.match.match(ctx, r); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// paramsOf are the parameters by which a binding applies the policy to the request; one nil for none. b is nil for a policy
// without bindings.
func (p *subject) paramsOf(s *policy.Scope, b *Binding) ([]map[string]any, error) {
	if b == nil || b.params == nil || p.paramKind == nil {
		return []map[string]any{nil}, nil
	}
	return b.params.find(s, p.paramKind)
}
