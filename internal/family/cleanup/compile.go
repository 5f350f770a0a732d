package cleanup

import (
	"ephor.invalid/ephor/internal/compilecost"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schedule"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

// RuleKind is the kind of the only rule of a Program of this family.
const RuleKind policy.RuleKind = "cleanup"

// Messages of results, as on Kyverno's command line.
const (
	TextMatched    = "resource matched"
	TextNotMatched = "resource did not match"
)

// Compile returns the Program of a policy. Program.Diags holds the mistakes. If there is an error among them, or among those of Check,
// the rule evaluates to status error. Do not change p after the call.
func Compile(p *kyvernov2.ClusterCleanupPolicy) *policy.Program {
	return compileWithin(p, &compilecost.Allowance{})
}

func compileWithin(p *kyvernov2.ClusterCleanupPolicy, allowance *compilecost.Allowance) *policy.Program {
	out := &policy.Program{
		APIVersion: p.APIVersion, Kind: p.Kind, Namespace: namespace(p), Name: p.Name,
		UID: string(p.UID), Generation: p.Generation, ResourceVersion: p.ResourceVersion,
		Labels: p.Labels, Annotations: p.Annotations,
		Settings: policy.Settings{Background: true, Scored: true, FailurePolicy: policy.Ignore},
	}
	out.Schedule, _ = schedule.Parse(p.Spec.Schedule) // Check reports the mistake
	rule, diags := compileRule(p, out.Namespace, allowance)
	out.Rules, out.Diags = []*policy.Rule{rule}, diags
	if mistakes := append(Check(p).Errors(), diags.Errors()...); len(mistakes) > 0 {
		rule.Eval = broken(mistakes[0])
	}
	return out
}

func compileRule(p *kyvernov2.ClusterCleanupPolicy, ns string, allowance *compilecost.Allowance) (*policy.Rule, diag.List) {
	spec := &p.Spec
	rule := &policy.Rule{Name: p.Name, Kind: RuleKind, Stage: policy.StageDelete, Path: "spec", Offline: policy.Offline{
		Whole: true, Unmatched: policy.Yield{Status: policy.StatusFail, Message: TextNotMatched}, // every policy has a result, even without a match, as in Kyverno
	}}
	var exclude *kyvernov1.MatchResources
	if ex := spec.ExcludeResources; ex != nil {
		exclude = &kyvernov1.MatchResources{Any: ex.Any, All: ex.All}
	}
	matcher, diags := match.CompileWith(kyvernov1.MatchResources{Any: spec.MatchResources.Any, All: spec.MatchResources.All}, exclude, ns, "spec",
		match.Options{IgnoreOperations: true, NamespacesPass: true, Subject: "CleanupPolicy"})
	rule.Match, rule.Targets, rule.Excludes = matcher.Match, matcher.Targets(), matcher.Excludes()
	rule.Needs = matcher.Needs()
	rule.MatchSteps = matcher.Steps()

	chain, moreDiags := loader.Compile(spec.Context, ns, "spec.context", allowance)
	diags.Add(moreDiags...)
	reads := chain.Reads()
	var conditions *condition.Set
	if tree := conditionTree(spec.Conditions); tree != nil {
		conditions, moreDiags = condition.Compile(tree, "spec.conditions", allowance)
		diags.Add(moreDiags...)
		reads.AddNames(conditions.Roots()...)
		for _, t := range conditions.Templates() {
			reads.Add(t)
		}
	}
	diags.Add(checkVariables(p.Name, &reads, chain.Names())...)
	rule.Needs.Merge(reads.Needs)

	work := policy.Work{Kind: policy.WorkDelete}
	if d := spec.DeletionPropagationPolicy; d != nil {
		work.Propagation = string(*d)
	}
	rule.Eval = func(c *policy.Call) policy.Yield {
		object, err := c.Request.Subject()
		if err != nil {
			return policy.Yield{Status: policy.StatusError, Message: err.Error()}
		}
		s := chain.Apply(scope.New(c).With("target", object))
		if conditions != nil {
			verdict, err := conditions.Eval(s.QueryEnv(), s)
			if err != nil {
				return policy.Yield{Status: policy.StatusError, Message: "failed to check conditions: " + err.Error(), Cause: err}
			}
			if !verdict.OK {
				return policy.Yield{Status: policy.StatusFail, Message: TextNotMatched}
			}
		}
		return policy.Yield{Status: policy.StatusPass, Message: TextMatched, Work: []policy.Work{work}}
	}
	return rule, diags
}

// broken returns the evaluator of a policy with a mistake.
func broken(d diag.Diagnostic) func(*policy.Call) policy.Yield {
	y := policy.Yield{Status: policy.StatusError, Message: d.Path + ": " + d.Summary}
	return func(*policy.Call) policy.Yield { return y }
}

// allowed are the variables that a cleanup policy may use besides those of its context entries.
var allowed = []string{"target", "images"}

// checkVariables rejects variables that have no value when a policy runs on its schedule, because there is no request.
func checkVariables(name string, reads *scope.Reads, context []string) diag.List {
	var l diag.List
	refuse := func(variable string) {
		l.Errorf("spec", "variable substitution failed for policy %s: variable %s must match regex \"target|images|request.namespace\" or patterns [%s]",
			name, variable, strings.Join(context, " "))
		l.Plain("a cleanup policy has no variable %s", variable)
		l.Hint("a deletion on a schedule has no request; `target` is the resource")
	}
	for _, n := range reads.Names() {
		if n != "request" && !slices.Contains(allowed, n) && !slices.Contains(context, n) {
			refuse(n)
		}
	}
	for _, f := range reads.RequestFields() {
		if f != "namespace" {
			refuse("request." + f)
		}
	}
	return l
}

// conditionTree returns typed conditions as JSON values, or nil if there are none.
func conditionTree(c *kyvernov2beta1.AnyAllConditions) map[string]any {
	if c == nil || c.AnyConditions == nil && c.AllConditions == nil {
		return nil
	}
	out := map[string]any{}
	for block, list := range map[string][]kyvernov2beta1.Condition{"any": c.AnyConditions, "all": c.AllConditions} {
		if list == nil {
			continue
		}
		conditions := make([]any, len(list))
		for i, x := range list {
			conditions[i] = conditionValue(x)
		}
		out[block] = conditions
	}
	return out
}

func conditionValue(c kyvernov2beta1.Condition) map[string]any {
	m := map[string]any{}
	for name, raw := range map[string]*apiextensionsv1.JSON{"key": c.RawKey, "value": c.RawValue} {
		if raw != nil {
			m[name], _ = value.DecodeJSON(raw.Raw) // valid JSON, since the policy was decoded from it
		}
	}
	if c.Operator != "" {
		m["operator"] = string(c.Operator)
	}
	if c.Message != "" {
		m["message"] = c.Message
	}
	return m
}
