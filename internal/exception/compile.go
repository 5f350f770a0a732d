package exception

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

// Compile decodes, checks and compiles an exception of any served version. It always returns an exception, whose Diags are the
// returned diagnostics. Do not join an exception with errors to rules.
func Compile(object map[string]any, o family.Options) (*policy.Exception, diag.List) {
	e, diags := Decode(object)
	diags.Add(Check(e)...)
	out := &policy.Exception{
		APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, UID: string(e.UID), Generation: e.Generation, ResourceVersion: e.ResourceVersion,
		Background: e.Spec.Background == nil || *e.Spec.Background,
		Source:     func() map[string]any { return object },
	}
	for _, x := range e.Spec.Exceptions {
		out.Rules = append(out.Rules, policy.ExceptionRules{Policy: x.PolicyName, Names: x.RuleNames})
	}
	diags.Add(family.AnnotateException(out, e.Annotations)...)
	diags.Add(compileMatch(out, e)...)
	diags.Add(compileConditions(out, e.Spec.Conditions, o.Within())...)
	if len(e.Spec.PodSecurity) > 0 {
		controls, mistakes := pss.CompileExclusions(e.Spec.PodSecurity, "", "spec.podSecurity")
		out.Partial, out.Controls = true, controls
		diags.Add(mistakes...)
	}
	out.Diags = diags
	return out, diags
}

func compileMatch(out *policy.Exception, e *kyvernov2.PolicyException) diag.List {
	m := kyvernov1.MatchResources{Any: e.Spec.Match.Any, All: e.Spec.Match.All}
	matcher, diags := match.CompileWith(m, nil, "", "spec", match.Options{IgnoreOperations: true, NamespacesPass: true, OnlyMatch: true})
	out.Needs.Merge(matcher.Needs())
	out.Match, out.MatchSteps = matcher.Match, matcher.Steps()
	return diags
}

// noReads are the Reads of exceptions without conditions, shared since there may be many.
var noReads = policy.ObjectReads(nil)

func compileConditions(out *policy.Exception, c *kyvernov2beta1.AnyAllConditions, a *compilecost.Allowance) diag.List {
	if c == nil || c.AnyConditions == nil && c.AllConditions == nil {
		out.Reads = noReads
		return nil
	}
	block := map[string]any{}
	if c.AnyConditions != nil {
		block["any"] = conditionList(c.AnyConditions)
	}
	if c.AllConditions != nil {
		block["all"] = conditionList(c.AllConditions)
	}
	set, diags := condition.Compile(block, "spec.conditions", a)
	var reads scope.Reads
	reads.AddNames(set.Roots()...)
	for _, t := range set.Templates() {
		reads.Add(t)
	}
	out.Needs.Merge(reads.Needs)
	out.Reads = reads.Object()
	out.Conditions = func(c *policy.Call, variables policy.Variables) (bool, error) {
		verdict, err := set.Eval((*jmespath.Env)(c.Env), variables)
		return verdict.OK, err
	}
	return diags
}

// conditionList returns typed conditions as JSON values, the form that package condition reads.
func conditionList(in []kyvernov2beta1.Condition) []any {
	out := make([]any, len(in))
	for i, c := range in {
		m := map[string]any{}
		set := func(name string, raw *apiextensionsv1.JSON) {
			if raw != nil {
				m[name], _ = value.DecodeJSON(raw.Raw) // it was decoded from JSON, so this cannot fail
			}
		}
		set("key", c.RawKey)
		set("value", c.RawValue)
		if c.Operator != "" {
			m["operator"] = string(c.Operator)
		}
		if c.Message != "" {
			m["message"] = c.Message
		}
		out[i] = m
	}
	return out
}
