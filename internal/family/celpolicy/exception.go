package celpolicy

import (
	"context"
	"strconv"
	"strings"

	policiesv1beta1 "github.com/ephor-dev/ephor/api/policies/v1beta1"
	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/celrule"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/strict"
	"github.com/ephor-dev/ephor/internal/value"
)

// ExceptionKind is the kind of exceptions.
const ExceptionKind = "PolicyException"

// PriorityLabel orders the exceptions that exempt the same request: an integer, the highest first.
const PriorityLabel = "polex.kyverno.io/priority"

// Environments are the kinds of policies that exceptions may name, with the environment of their expressions.
var Environments = map[string]celenv.Kind{
	"ValidatingPolicy": celenv.Validating, "MutatingPolicy": celenv.Mutating, "GeneratingPolicy": celenv.Generating,
	"DeletingPolicy": celenv.Deleting, "ImageValidatingPolicy": celenv.ImageValidating,
}

// OwnsException reports whether objects of the kind are exceptions from policies of the group, whatever their version.
func OwnsException(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group == Group && kind == ExceptionKind
}

// CompileException decodes, checks and compiles an exception. It always returns one, whose Diags are the returned
// diagnostics. Do not use one with errors among them.
func CompileException(object map[string]any) (*policy.Exception, diag.List) {
	var e policiesv1beta1.PolicyException
	diags := strict.Decode(object, &e)
	checkVersion(&diags, e.APIVersion, e.Kind, versions)
	checkException(&diags, &e.Spec)
	out := &policy.Exception{
		Group: Group, Namespace: e.Namespace, Name: e.Name, UID: string(e.UID), Generation: e.Generation, ResourceVersion: e.ResourceVersion,
		Background: true, Object: object,
		Match:  func(context.Context, *policy.Request) (bool, error) { return true, nil },
		Images: e.Spec.Images, Values: e.Spec.AllowedValues, ReportPass: e.Spec.ReportResult == "pass",
	}
	if t := e.Spec.ExpiresAt; t != nil {
		out.Expires = t.Time
	}
	if n, err := strconv.Atoi(e.Labels[PriorityLabel]); err == nil && n > 0 {
		out.Priority = n
	}
	for _, ref := range e.Spec.PolicyRefs {
		out.Rules = append(out.Rules, policy.ExceptionRules{Kind: ref.Kind, Policy: ref.Name, AnyNamespace: true, Names: []string{"*"}})
	}
	diags.Add(compileConditions(out, &e.Spec)...)
	out.Diags = diags
	return out, diags
}

func checkException(diags *diag.List, spec *policiesv1beta1.PolicyExceptionSpec) {
	if len(spec.PolicyRefs) == 0 {
		diags.Invalid("spec.policyRefs", "", "must specify at least one policy ref")
	}
	for i, ref := range spec.PolicyRefs {
		at := "spec.policyRefs[" + strconv.Itoa(i) + "]"
		if ref.Name == "" {
			diags.Invalid(at+".name", "", "must specify policy name")
		}
		if ref.Kind == "" {
			diags.Invalid(at+".kind", "", "must specify policy kind")
		}
	}
	switch spec.ReportResult {
	case "", "skip", "pass":
	default:
		diags.Unsupported("spec.reportResult", spec.ReportResult, []string{"skip", "pass"})
	}
}

// compiled are the conditions of an exception in one environment.
type compiled struct {
	named      *celenv.Variables
	conditions celrule.Conditions
}

// compileConditions compiles the conditions in the environment of each kind that the exception names.
func compileConditions(out *policy.Exception, spec *policiesv1beta1.PolicyExceptionSpec) diag.List {
	var diags diag.List
	if len(spec.MatchConditions) == 0 {
		out.Reads = policy.ObjectReads(nil)
		return diags
	}
	byKind := map[string]compiled{}
	var reads value.Fields
	for _, ref := range spec.PolicyRefs {
		base := strings.TrimPrefix(ref.Kind, NamespacedPrefix)
		environment, known := Environments[base]
		if _, done := byKind[ref.Kind]; done || !known {
			continue
		}
		c := celrule.New(celenv.Declarations{Kind: environment, Namespaced: base != ref.Kind}, &celenv.Allowance{})
		conditions := c.Conditions(spec.MatchConditions, "spec.matchConditions")
		byKind[ref.Kind] = compiled{c.Named(), conditions}
		out.Needs.Merge(c.Needs())
		if object := c.Object(); object != nil {
			reads.Merge(object)
		}
		if len(diags) == 0 { // else the same mistakes were found before
			diags = c.Diags
		}
	}
	out.Reads = policy.ObjectReads(&reads)
	out.Conditions = func(c *policy.Call, _ policy.Variables) (bool, error) {
		x, known := byKind[c.Program.Kind]
		if !known {
			return false, nil
		}
		in, err := celrule.Policies.Input(c)
		if err != nil {
			return false, err
		}
		return x.conditions.Hold(c.Context(), c.Meter, x.named, in)
	}
	return diags
}
