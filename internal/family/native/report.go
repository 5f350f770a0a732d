package native

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/strict"
)

// Properties of results that name the binding (control plane reference §6.5).
const (
	propertyBinding  = "binding"
	propertyMutating = "mapBinding"
)

// textNotApplied is the message of a policy that would change the object.
const textNotApplied = "mutation is not applied"

// CompileReport makes a Program that tells what a policy of either kind says of objects that exist already: one result for each of
// its bindings that selects the object, or one where it has none. A mutating policy fails for an object that it would change.
func CompileReport(in Source, o Options) *policy.Program {
	if in.Policy["kind"] == ValidatingPolicy {
		return compileValidation(in)
	}
	p, out := compileMutation(in, o)
	for _, r := range out.Rules {
		r.Stage = policy.StageValidate
		r.Eval = func(s *policy.Scope) policy.Yield { return p.reportEach(s, propertyMutating, p.wouldChange) }
	}
	return out
}

// wouldChange tells whether the policy would change the object.
func (p *program) wouldChange(s *policy.Scope, b *Binding) policy.Yield {
	y := p.mutate(s, []*Binding{b})
	switch {
	case y.Status == policy.StatusSkip:
		return policy.Yield{}
	case y.Object != nil:
		return policy.Yield{Status: policy.StatusFail, Message: textNotApplied}
	}
	return y
}

// reportEach is what judge says for each binding that selects the object; its name is the property.
func (p *subject) reportEach(s *policy.Scope, property string, judge func(*policy.Scope, *Binding) policy.Yield) policy.Yield {
	bound := []*Binding{nil}
	if len(p.bindings) > 0 {
		var err error
		if bound, err = p.bound(s.Env.Meter.Context(), s.Request); err != nil {
			return failed(err)
		}
	}
	var all []policy.Yield
	for _, b := range bound {
		y := judge(s, b)
		if y.Status == policy.StatusNone {
			continue
		}
		if b != nil {
			y.Properties = map[string]string{property: b.name}
		}
		all = append(all, y)
	}
	if len(all) == 0 {
		return policy.Yield{}
	}
	all[0].Also = all[1:]
	return all[0]
}

// validation is a compiled policy that validates.
type validation struct {
	subject
	checks   []admissionregistrationv1.Validation
	holds    plugincel.ConditionEvaluator
	messages plugincel.ConditionEvaluator
}

func compileValidation(in Source) *policy.Program {
	var object admissionregistrationv1.ValidatingAdmissionPolicy
	diags := strict.Decode(in.Policy, &object)
	spec := &object.Spec
	p := &validation{subject: subject{bindings: in.Bindings}, checks: spec.Validations}
	out := outline(object.TypeMeta, object.ObjectMeta, spec.FailurePolicy)
	diags.Add(p.about(spec.MatchConstraints, spec.ParamKind)...)
	diags.Add(p.compileChecks(spec)...)
	out.Rules = []*policy.Rule{{
		Name: object.Name, Kind: ValidatingRuleKind, Stage: policy.StageValidate, Path: "spec", SkipOnDelete: true, Needs: p.needs(),
		Targets: p.targets(), Match: p.matches,
		Eval: func(s *policy.Scope) policy.Yield { return p.reportEach(s, propertyBinding, p.judge) },
	}}
	out.Diags = diags
	return out
}

// compileChecks compiles the expressions as the API server does.
func (p *validation) compileChecks(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) diag.List {
	options, diags := p.compile(spec.Variables, spec.MatchConditions)
	if p.compiler == nil {
		return diags
	}
	holds := make([]plugincel.ExpressionAccessor, len(spec.Validations))
	messages := make([]plugincel.ExpressionAccessor, len(spec.Validations))
	for i, v := range spec.Validations {
		holds[i] = &expression{text: v.Expression, result: cel.BoolType}
		if v.MessageExpression != "" {
			messages[i] = &expression{text: v.MessageExpression, result: cel.StringType}
		}
	}
	p.holds = p.compiler.CompileCondition(holds, options, environment.StoredExpressions)
	options.HasAuthorizer = false
	p.messages = p.compiler.CompileCondition(messages, options, environment.StoredExpressions)
	for _, err := range p.holds.CompilationErrors() {
		diags.Errorf("spec.validations", "%v", err)
	}
	return diags
}

// judge evaluates the checks by one binding, for each of its parameters: the first that does not hold decides.
func (p *validation) judge(s *policy.Scope, b *Binding) policy.Yield {
	object, err := s.Request.Object.Map()
	if err != nil {
		return failed(err)
	}
	params, err := p.paramsOf(s, b)
	if err != nil {
		return failed(err)
	}
	out := policy.Yield{}
	for _, param := range params {
		in, err := p.input(s, object, param)
		if err != nil {
			return failed(err)
		}
		if ok, err := p.conditionsHold(in); err != nil {
			return failed(err)
		} else if !ok {
			continue
		}
		if out = p.check(in); out.Status != policy.StatusPass {
			return out
		}
	}
	return out
}

func (p *validation) check(in *input) policy.Yield {
	results, err := in.evaluate(p.holds, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return failed(err)
	}
	for i, result := range results {
		switch {
		case result.Error != nil:
			return policy.Yield{Status: policy.StatusError, Message: result.Error.Error()}
		case result.EvalResult != types.True:
			return policy.Yield{Status: policy.StatusFail, Message: p.message(in, i)}
		}
	}
	return policy.Yield{Status: policy.StatusPass}
}

// message is what the API server would say of a check that does not hold.
func (p *validation) message(in *input, i int) string {
	c := &p.checks[i]
	if c.MessageExpression != "" {
		// One that gives no text is passed over for the message, as the API server does.
		if results, err := in.evaluate(p.messages, celconfig.RuntimeCELCostBudget); err == nil && results[i].Error == nil && results[i].EvalResult != nil {
			if text, ok := results[i].EvalResult.Value().(string); ok && strings.TrimSpace(text) != "" {
				return strings.TrimSpace(text)
			}
		}
	}
	if c.Message != "" {
		return strings.TrimSpace(c.Message)
	}
	return "failed expression: " + strings.TrimSpace(c.Expression)
}
