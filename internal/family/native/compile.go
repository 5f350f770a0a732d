package native

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/strict"
)

// Group is the API group of the family, and these are its kinds.
const (
	Group           = "admissionregistration.k8s.io"
	MutatingPolicy  = "MutatingAdmissionPolicy"
	MutatingBinding = "MutatingAdmissionPolicyBinding"
)

// RuleKind is the kind of the only rule of a Program of this family.
const RuleKind policy.RuleKind = "mutatingAdmissionPolicy"

// OwnsPolicy and OwnsBinding report whether objects of the kind are policies, or bindings of policies, of this family.
func OwnsPolicy(apiVersion, kind string) bool  { return owns(apiVersion) && kind == MutatingPolicy }
func OwnsBinding(apiVersion, kind string) bool { return owns(apiVersion) && kind == MutatingBinding }

func owns(apiVersion string) bool {
	group, version, _ := strings.Cut(apiVersion, "/")
	return group == Group && slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, version)
}

// Source is a policy with its bindings. Without any the policy applies wherever its constraints match, with no parameters.
type Source struct {
	Policy   map[string]any
	Bindings []*Binding
}

// Binding is a decoded binding.
type Binding struct {
	object *admissionregistrationv1.MutatingAdmissionPolicyBinding
	match  *constraints
	params *params
}

// PolicyName is the policy that it binds.
func (b *Binding) PolicyName() string { return b.object.Spec.PolicyName }

// CompileBinding decodes and checks a binding. With an error among the diagnostics it must not be used.
func CompileBinding(object map[string]any) (*Binding, diag.List) {
	b := &Binding{object: &admissionregistrationv1.MutatingAdmissionPolicyBinding{}}
	diags := strict.Decode(object, b.object)
	spec := &b.object.Spec
	if spec.PolicyName == "" {
		diags.Errorf("spec.policyName", "a binding needs the name of a policy")
	}
	var more diag.List
	if spec.MatchResources != nil {
		b.match, more = compileConstraints(spec.MatchResources, "spec.matchResources")
		diags.Add(more...)
	}
	b.params, more = compileParams(spec.ParamRef)
	diags.Add(more...)
	return b, diags
}

// Options are what the mutations need to know besides.
type Options struct {
	// Types are the types of known kinds, by which lists are merged; nil for none: the lists of an apply configuration then
	// replace those of the object.
	Types managedfields.TypeConverter
}

// program is a compiled policy.
type program struct {
	object     *admissionregistrationv1.MutatingAdmissionPolicy
	bindings   []*Binding
	match      *constraints
	conditions plugincel.ConditionEvaluator // nil without conditions
	patchers   []patch.Patcher
	compiler   *plugincel.CompositedCompiler // holds the variables
	types      managedfields.TypeConverter
}

// Compile makes the Program of a policy. It always returns one; Program.Diags holds the mistakes, and with an error among
// them it must not be used.
func Compile(in Source, o Options) *policy.Program {
	p := &program{object: &admissionregistrationv1.MutatingAdmissionPolicy{}, bindings: in.Bindings, types: converter(o.Types)}
	diags := strict.Decode(in.Policy, p.object)
	meta, spec := p.object.ObjectMeta, &p.object.Spec
	out := &policy.Program{
		APIVersion: p.object.APIVersion, Kind: p.object.Kind, Name: meta.Name, UID: string(meta.UID),
		Generation: meta.Generation, ResourceVersion: meta.ResourceVersion, Labels: meta.Labels, Annotations: meta.Annotations,
		Settings: policy.Settings{Background: true, Scored: true, FailurePolicy: policy.Fail},
	}
	if spec.FailurePolicy != nil && *spec.FailurePolicy == admissionregistrationv1.Ignore {
		out.Settings.FailurePolicy = policy.Ignore
	}
	var more diag.List
	if spec.MatchConstraints == nil || len(spec.MatchConstraints.ResourceRules) == 0 {
		diags.Errorf("spec.matchConstraints.resourceRules", "a policy needs the resources that it is about")
	} else {
		p.match, more = compileConstraints(spec.MatchConstraints, "spec.matchConstraints")
		diags.Add(more...)
	}
	if len(spec.Mutations) == 0 {
		diags.Errorf("spec.mutations", "a policy needs mutations")
	}
	diags.Add(p.compileExpressions()...)
	out.Rules = []*policy.Rule{{
		Name: meta.Name, Kind: RuleKind, Stage: policy.StageMutate, Path: "spec", SkipOnDelete: true,
		Needs:   policy.Needs{Lookups: spec.ParamKind != nil, NamespaceLabels: true, OldObject: true, ManagedFields: true},
		Targets: p.targets(), Match: p.matches, Eval: p.eval,
	}}
	out.Diags = diags
	return out
}

// compileExpressions compiles the conditions, variables and mutations as the API server does.
func (p *program) compileExpressions() diag.List {
	var diags diag.List
	spec := &p.object.Spec
	options := plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		diags.Errorf("spec", "%v", err)
		return diags
	}
	p.compiler = compiler
	for i, v := range spec.Variables {
		accessor := &expression{v.Name, v.Expression, cel.DynType}
		result := compiler.CompileAndStoreVariable(accessor, options, environment.StoredExpressions)
		if result.Error != nil {
			diags.Errorf(fmt.Sprintf("spec.variables[%d].expression", i), "%v", result.Error)
		}
	}
	if len(spec.MatchConditions) > 0 {
		accessors := make([]plugincel.ExpressionAccessor, len(spec.MatchConditions))
		for i := range spec.MatchConditions {
			accessors[i] = &expression{spec.MatchConditions[i].Name, spec.MatchConditions[i].Expression, cel.BoolType}
		}
		evaluator := compiler.CompileCondition(accessors, options, environment.StoredExpressions)
		for _, err := range evaluator.CompilationErrors() {
			diags.Errorf("spec.matchConditions", "%v", err)
		}
		p.conditions = evaluator
	}
	options.HasPatchTypes = true
	for i, m := range spec.Mutations {
		path := fmt.Sprintf("spec.mutations[%d]", i)
		var evaluator plugincel.MutatingEvaluator
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			evaluator = compiler.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, options, environment.StoredExpressions)
			p.patchers = append(p.patchers, patch.NewApplyConfigurationPatcher(evaluator))
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			evaluator = compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, options, environment.StoredExpressions)
			p.patchers = append(p.patchers, patch.NewJSONPatcher(evaluator))
		default:
			diags.Errorf(path, "patchType is ApplyConfiguration with applyConfiguration, or JSONPatch with jsonPatch")
			continue
		}
		for _, err := range evaluator.CompilationErrors() {
			diags.Errorf(path, "%v", err)
		}
	}
	return diags
}

// matches reports whether the constraints select the request, and those of a binding if there are any.
func (p *program) matches(ctx context.Context, r *policy.Request) (bool, error) {
	ok, err := p.match.match(ctx, r)
	if !ok || err != nil || len(p.bindings) == 0 {
		return ok, err
	}
	bound, err := p.bound(ctx, r)
	return len(bound) > 0, err
}

// bound are the bindings whose constraints select the request.
func (p *program) bound(ctx context.Context, r *policy.Request) ([]*Binding, error) {
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

// expression is a named expression as the library asks for it.
type expression struct {
	name, text string
	result     *cel.Type
}

func (e *expression) GetName() string       { return e.name }
func (e *expression) GetExpression() string { return e.text }
func (e *expression) ReturnTypes() []*cel.Type {
	if e.result == cel.DynType {
		return []*cel.Type{cel.AnyType, cel.DynType}
	}
	return []*cel.Type{e.result}
}
