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

// validation is a compiled policy that validates.
type validation struct {
	subject
	checks   []admissionregistrationv1.Validation
	holds    plugincel.ConditionEvaluator
	messages plugincel.ConditionEvaluator
}

// compileValidation compiles a policy whose rule decides about requests.
func compileValidation(in Source) (*validation, *policy.Program) {
	var object admissionregistrationv1.ValidatingAdmissionPolicy
	diags := strict.Decode(in.Policy, &object)
	spec := &object.Spec
	p := &validation{subject: subject{bindings: in.Bindings}, checks: spec.Validations}
	out := outline(object.TypeMeta, object.ObjectMeta, spec.FailurePolicy)
	diags.Add(p.about(spec.MatchConstraints, spec.ParamKind)...)
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		diags.Errorf("spec.validations", "a policy needs validations or auditAnnotations")
	}
	diags.Add(p.compileChecks(spec)...)
	out.Rules = []*policy.Rule{{
		Name: object.Name, Kind: ValidatingRuleKind, Stage: policy.StageValidate, Path: "spec", Needs: p.needs(),
		Targets: p.targets(), Match: p.matches,
		Eval: p.decide,
	}}
	out.Diags = diags
	return p, out
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

// decide is what the policy says of a request by all bindings that select it, or by itself where it has none: one that refuses
// decides, else one that cannot be evaluated.
func (p *validation) decide(s *policy.Scope) policy.Yield {
	bound := []*Binding{nil}
	if len(p.bindings) > 0 {
		var err error
		if bound, err = p.bound(s.Env.Meter.Context(), s.Request); err != nil {
			return failed(err)
		}
	}
	out := policy.Yield{Status: policy.StatusSkip, Message: textSkipped}
	for _, b := range bound {
		switch y := p.evaluate(s, b); {
		case y.Status == policy.StatusFail:
			return y
		case y.Status == policy.StatusError && out.Status != policy.StatusError, y.Status == policy.StatusPass && out.Status == policy.StatusSkip:
			out = y
		}
	}
	return out
}

// evaluate evaluates the checks by one binding, for each of its parameters: the first that does not hold decides. Where
// match conditions leave the request out there is no status.
func (p *validation) evaluate(s *policy.Scope, b *Binding) policy.Yield {
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
