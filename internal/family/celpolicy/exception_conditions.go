package celpolicy

import (
	"strconv"
	"strings"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Environments are the kinds of policies that exceptions may name, each with the environment of its expressions.
var Environments = map[string]env.Kind{
	"ValidatingPolicy": env.Validating, "MutatingPolicy": env.Mutating, "GeneratingPolicy": env.Generating,
	"DeletingPolicy": env.Deleting, "ImageValidatingPolicy": env.ImageValidating,
}

// environmentOf returns the environment of expressions for policies of a kind; known is false if exceptions may not name the kind.
func environmentOf(kind string) (d env.Declarations, known bool) {
	base := strings.TrimPrefix(kind, NamespacedPrefix)
	d.Kind, known = Environments[base]
	d.Namespaced = base != kind
	return d, known
}

// conditions are the conditions of an exception in one environment.
type conditions struct {
	named *run.Variables
	celrule.Conditions
}

// hold evaluates the conditions on the request of a call.
func (x *conditions) hold(c *policy.Call) (bool, error) {
	in, err := celrule.Policies.Input(c)
	if err != nil {
		return false, err
	}
	return x.Hold(c.Context(), c.Meter, x.named, in)
}

// compileConditions compiles the conditions of an exception. In a cluster, the conditions are evaluated with the rights of the policy,
// which exceed those of the exception's author. Therefore they cannot use libraries with lookups, as in Kyverno's review. On the command
// line they are compiled in the environment of each kind of policy that the exception names.
func compileConditions(out *policy.Exception, spec *policiesv1beta1.PolicyExceptionSpec, o family.Options, diags *diag.List) {
	var reads value.Fields
	defer func() { out.Reads = policy.ObjectReads(&reads) }()
	if len(spec.MatchConditions) == 0 {
		return
	}
	allowance := o.Within()
	compile := func(d env.Declarations) (*conditions, diag.List) {
		c := celrule.New(d, allowance)
		x := &conditions{}
		for i, m := range spec.MatchConditions {
			if m.Expression != "" { // a missing expression is already reported
				x.Conditions = append(x.Conditions, c.Expression(m.Expression, "spec.matchConditions["+strconv.Itoa(i)+"].expression", typecheck.Bool))
			}
		}
		x.named = c.Named()
		out.Needs.Merge(c.Needs())
		if object := c.Object(); object != nil {
			reads.Merge(object)
		}
		return x, c.Diags
	}
	if !o.CommandLine {
		x, mistakes := compile(env.Declarations{Kind: env.Exempting})
		diags.Add(mistakes...)
		out.Conditions = func(c *policy.Call, _ policy.Variables) (bool, error) { return x.hold(c) }
		return
	}
	byKind := map[string]*conditions{}
	var mistakes diag.List
	for _, ref := range spec.PolicyRefs {
		d, known := environmentOf(ref.Kind)
		if byKind[ref.Kind] != nil || !known {
			continue
		}
		x, found := compile(d)
		byKind[ref.Kind] = x
		if len(mistakes) == 0 { // otherwise the mistakes are already reported
			mistakes = found
		}
	}
	diags.Add(mistakes...)
	out.Conditions = func(c *policy.Call, _ policy.Variables) (bool, error) {
		x := byKind[c.Program.Kind]
		if x == nil {
			return false, nil
		}
		return x.hold(c)
	}
}
