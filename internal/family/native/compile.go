package native

import (
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
	Group             = "admissionregistration.k8s.io"
	MutatingPolicy    = "MutatingAdmissionPolicy"
	MutatingBinding   = "MutatingAdmissionPolicyBinding"
	ValidatingPolicy  = "ValidatingAdmissionPolicy"
	ValidatingBinding = "ValidatingAdmissionPolicyBinding"
)

// RuleKind and ValidatingRuleKind are the kinds of the only rule of a Program of this family.
const (
	RuleKind           policy.RuleKind = "mutatingAdmissionPolicy"
	ValidatingRuleKind policy.RuleKind = "validatingAdmissionPolicy"
)

// OwnsPolicy reports whether objects of the kind are policies of this family.
func OwnsPolicy(apiVersion, kind string) bool {
	return owns(apiVersion) && (kind == MutatingPolicy || kind == ValidatingPolicy)
}

// OwnsBinding is OwnsPolicy for bindings.
func OwnsBinding(apiVersion, kind string) bool {
	return owns(apiVersion) && (kind == MutatingBinding || kind == ValidatingBinding)
}

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
	name, policy string
	match        *constraints
	params       *params
	denies       bool // what a validating policy refuses
}

// PolicyName is the policy that it binds.
func (b *Binding) PolicyName() string { return b.policy }

// CompileBinding decodes and checks a binding of either kind. With an error among the diagnostics it must not be used.
func CompileBinding(object map[string]any) (*Binding, diag.List) {
	if object["kind"] == ValidatingBinding {
		var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
		diags := strict.Decode(object, &b)
		out, diags := newBinding(b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef, diags)
		out.denies = slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
		return out, diags
	}
	var b admissionregistrationv1.MutatingAdmissionPolicyBinding
	diags := strict.Decode(object, &b)
	return newBinding(b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef, diags)
}

func newBinding(name, policyName string, match *admissionregistrationv1.MatchResources, ref *admissionregistrationv1.ParamRef, diags diag.List) (*Binding, diag.List) {
	b := &Binding{name: name, policy: policyName}
	if policyName == "" {
		diags.Errorf("spec.policyName", "a binding needs the name of a policy")
	}
	var more diag.List
	if match != nil {
		b.match, more = compileConstraints(match, "spec.matchResources")
		diags.Add(more...)
	}
	b.params, more = compileParams(ref)
	diags.Add(more...)
	return b, diags
}

// Options are what the mutations need to know besides.
type Options struct {
	// Types are the types of known kinds, by which lists are merged; nil for none: the lists of an apply configuration then
	// replace those of the object.
	Types managedfields.TypeConverter
}

// program is a compiled policy that mutates.
type program struct {
	subject
	object   *admissionregistrationv1.MutatingAdmissionPolicy
	patchers []patch.Patcher
	types    managedfields.TypeConverter
}

// Compile makes the Program of a policy. It always returns one; Program.Diags holds the mistakes, and with an error among
// them it must not be used.
func Compile(in Source, o Options) *policy.Program {
	if in.Policy["kind"] == ValidatingPolicy {
		_, out := compileValidation(in)
		if len(in.Bindings) == 0 || slices.ContainsFunc(in.Bindings, func(b *Binding) bool { return b.denies }) {
			out.Rules[0].Action.Default = policy.Deny
		}
		return out
	}
	_, out := compileMutation(in, o)
	return out
}

func compileMutation(in Source, o Options) (*program, *policy.Program) {
	p := &program{subject: subject{bindings: in.Bindings}, object: &admissionregistrationv1.MutatingAdmissionPolicy{}, types: converter(o.Types)}
	diags := strict.Decode(in.Policy, p.object)
	meta, spec := p.object.ObjectMeta, &p.object.Spec
	out := outline(p.object.TypeMeta, meta, spec.FailurePolicy)
	diags.Add(p.about(spec.MatchConstraints, spec.ParamKind)...)
	if len(spec.Mutations) == 0 {
		diags.Errorf("spec.mutations", "a policy needs mutations")
	}
	diags.Add(p.compileExpressions()...)
	out.Rules = []*policy.Rule{{
		Name: meta.Name, Kind: RuleKind, Stage: policy.StageMutate, Path: "spec", SkipOnDelete: true,
		Needs:   p.needs(),
		Targets: p.targets(), Match: p.matches, Eval: p.eval,
	}}
	out.Diags = diags
	return p, out
}

// compileExpressions compiles all expressions, the mutations with them.
func (p *program) compileExpressions() diag.List {
	spec := &p.object.Spec
	options, diags := p.compile(spec.Variables, spec.MatchConditions)
	if p.compiler == nil {
		return diags
	}
	compiler := p.compiler
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
