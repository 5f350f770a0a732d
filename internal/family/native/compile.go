package native

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
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

// Source is a policy and its bindings. Without bindings, the policy applies to everything that its constraints match, without parameters.
type Source struct {
	Policy   map[string]any
	Bindings []*Binding
	// Allowance is charged for what the expressions cost to compile; nil for the bounds of single expressions.
	Allowance *compilecost.Allowance
}

// Binding is a decoded binding.
type Binding struct {
	name, policy string
	match        *constraint.Constraints
	params       *celrule.Params // nil for none
	action       policy.Action   // the effect of a validating policy's failures
}

// CompileBinding decodes and checks a binding of either kind. Use the binding only if no diagnostic is an error.
func CompileBinding(object map[string]any) (*Binding, diag.List) {
	if object["kind"] == ValidatingBinding {
		var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
		diags := strict.Decode(object, &b)
		out, diags := newBinding(b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef, diags)
		for _, a := range b.Spec.ValidationActions {
			switch a {
			case admissionregistrationv1.Deny:
				out.action |= policy.Deny
			case admissionregistrationv1.Warn:
				out.action |= policy.Warn
			}
		}
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
	var moreDiags diag.List
	if match != nil {
		b.match, moreDiags = constraint.Compile(match, "spec.matchResources", constraint.Options{})
		diags.Add(moreDiags...)
	}
	if ref == nil {
		return b, diags
	}
	var err error
	switch b.params, err = celrule.CompileParams(ref); {
	case (ref.Name == "") == (ref.Selector == nil):
		diags.Errorf("spec.paramRef", "exactly one of name and selector is needed")
	case err != nil:
		diags.Errorf("spec.paramRef.selector", "%v", err)
	}
	b.params.TakeNamespace = true // the command line may not know the scope of the kind
	return b, diags
}

// Options are further inputs for mutations.
type Options struct {
	// Types are the types of known kinds, which determine how lists are merged. If nil, the lists of an apply configuration
	// replace those of the object.
	Types managedfields.TypeConverter
}

// program is a compiled mutating policy.
type program struct {
	subject
	mutations []celrule.Mutation
	types     managedfields.TypeConverter
}

// Compile returns the Program of a policy. Program.Diags holds the mistakes; do not use a Program with an error among them.
func Compile(in Source, o Options) *policy.Program {
	if in.Policy["kind"] == ValidatingPolicy {
		_, out := compileValidation(in)
		if len(in.Bindings) == 0 {
			out.Rules[0].Action.Default = policy.Deny
		}
		for _, b := range in.Bindings {
			out.Rules[0].Action.Default |= b.action
		}
		return out
	}
	_, out := compileMutation(in, o)
	return out
}

func compileMutation(in Source, o Options) (*program, *policy.Program) {
	var object admissionregistrationv1.MutatingAdmissionPolicy
	diags := strict.Decode(in.Policy, &object)
	spec := &object.Spec
	p := &program{subject: subject{bindings: in.Bindings, allowance: in.Allowance}, types: celrule.Types(o.Types)}
	out := outline(object.TypeMeta, object.ObjectMeta, spec.FailurePolicy)
	diags.Add(p.about(spec.MatchConstraints, spec.ParamKind)...)
	if len(spec.Mutations) == 0 {
		diags.Errorf("spec.mutations", "a policy needs mutations")
	}
	c := p.compile(spec.Variables, spec.MatchConditions)
	p.mutations = c.Mutations(spec.Mutations, "spec.mutations")
	diags.Add(p.done(c)...)
	out.Rules = []*policy.Rule{{
		Name: object.Name, Kind: RuleKind, Stage: policy.StageMutate, Path: "spec",
		Offline:  policy.Offline{Whole: true},
		Matching: policy.Matching{Targets: p.match.Targets(), Excludes: p.match.Excludes(), Match: p.matches},
		Reads:    policy.Reads{Needs: p.needs()},
		Effect:   policy.Effect{SkipOnDelete: true},
		Eval:     p.eval,
	}}
	out.Diags = diags
	return p, out
}
