package validating

import (
	"fmt"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// These texts are Kyverno's, verbatim.
const (
	textAllowed      = "request allowed"
	textDeniedHTTP   = "request denied, reason: "
	textDeniedEnvoy  = "request denied with status code "
	textUndecided    = "request does not match"
	pathOfExpression = "spec.validations[%d].expression"
)

// checkMode is an evaluation mode for check requests of proxies.
type checkMode struct {
	kind     env.Kind
	payload  policy.Payload
	response typecheck.Result
	denied   func(env.Response) string
}

var checkModes = map[policiesv1beta1.EvaluationMode]*checkMode{
	policiesv1beta1.EvaluationModeHTTP: {
		env.HTTPChecks, policy.HTTPPayload, typecheck.HTTPResponse,
		func(r env.Response) string { return textDeniedHTTP + r.Reason },
	},
	policiesv1beta1.EvaluationModeEnvoy: {
		env.EnvoyChecks, policy.EnvoyPayload, typecheck.EnvoyResponse,
		func(r env.Response) string { return textDeniedEnvoy + fmt.Sprint(r.Status) },
	},
}

// checkModeOf returns the mode of a policy for check requests of proxies, or nil for other policies. As in Kyverno, the controllers
// evaluate such a policy like one for Kubernetes objects.
func checkModeOf(spec *policiesv1beta1.ValidatingPolicySpec) *checkMode {
	if spec.Evaluation == nil {
		return nil
	}
	return checkModes[spec.Evaluation.Mode]
}

// compileCheck returns the rule of a policy for check requests. It ignores constraints, messages, actions and audit annotations.
func compileCheck(p *policy.Program, spec *policiesv1beta1.ValidatingPolicySpec, m *checkMode, a *compilecost.Allowance) (*policy.Rule, diag.List) {
	subject, c := celpolicy.Compile(p, celpolicy.Input{
		Kind: m.kind, Payload: m.payload, Conditions: spec.MatchConditions, Variables: spec.Variables, Allowance: a,
	})
	r := &checker{mode: m, rule: &subject.Rule, failure: p.Settings.FailurePolicy}
	for i := range spec.Validations {
		r.responses = append(r.responses, c.Expression(spec.Validations[i].Expression, fmt.Sprintf(pathOfExpression, i), m.response, typecheck.Null))
	}
	rule := subject.NewRule(c)
	rule.Kind, rule.Stage, rule.OnError = RuleKind, policy.StageValidate, policy.ErrorByAction
	rule.Action.Default = policy.Deny
	rule.Name, rule.Offline.Whole = p.Name, true // the policy has one result, with its own name
	rule.Eval = r.evaluate
	if c.Diags.HasErrors() {
		rule.Eval = celpolicy.Broken(c.Diags)
	}
	return rule, c.Diags
}

// checker evaluates check requests.
type checker struct {
	mode      *checkMode
	rule      *celrule.Rule
	responses []*run.Expression
	failure   policy.FailurePolicy
}

func (r *checker) evaluate(c *policy.Call) policy.Yield {
	in, err := celrule.Policies.Input(c)
	if err != nil {
		return r.failed(err)
	}
	request, err := c.Request.Object.Map()
	if err != nil {
		return r.failed(err)
	}
	in.OldObject, in.Source = nil, nil
	if in.Object, err = env.CheckRequest(r.mode.kind, request); err != nil {
		return mistaken(err) // the request is malformed, so failurePolicy does not apply
	}
	exemption, err := celpolicy.Exempt(c)
	if err != nil {
		return r.failed(err)
	}
	if exemption.Full.Status != policy.StatusNone {
		return undecided()
	}
	switch applies, err := r.rule.Applies(c.Context(), c.Meter, in); {
	case err != nil:
		return r.failed(err)
	case !applies:
		return undecided()
	}
	response, ok, err := r.rule.Respond(c.Context(), c.Meter, in, r.responses)
	switch {
	case err != nil:
		return r.failed(err)
	case !ok:
		return undecided()
	case response.Allowed:
		return policy.Yield{Status: policy.StatusPass, Message: textAllowed}
	}
	return policy.Yield{Status: policy.StatusFail, Message: r.mode.denied(response)}
}

func undecided() policy.Yield { return policy.Yield{Status: policy.StatusSkip, Message: textUndecided} }

// failed returns the result if an expression could not be evaluated. With failurePolicy Ignore the policy makes no decision.
func (r *checker) failed(err error) policy.Yield {
	if r.failure == policy.Ignore {
		return undecided()
	}
	return mistaken(err)
}

func mistaken(err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: celpolicy.Text(err), Cause: err}
}
