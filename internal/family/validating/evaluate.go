package validating

import (
	"maps"
	"strconv"

	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// These texts are Kyverno's, verbatim.
const (
	textPassed  = "success"
	textSkipped = "skip"
	textContext = "failed to load context: "
	textError   = "error: "
)

// evaluator evaluates a rule.
type evaluator struct {
	rule *celrule.Rule
	// unlisted reports whether a request is for a subresource of a Pod that the policy does not list.
	unlisted func(*policy.Request) bool
	json     bool // the policy evaluates documents without a request
}

func (r *evaluator) evaluate(c *policy.Call) policy.Yield {
	in, err := r.input(c)
	if err != nil {
		return failed(textContext, err)
	}
	y := r.on(c, in)
	switch {
	case y.Status == policy.StatusPass:
		celrule.Release(c, in)
	case y.Status == policy.StatusFail && r.unlisted(c.Request):
		y = celpolicy.Existing(c, y, r.failures)
	}
	return y
}

// failures returns the violations of a request.
func (r *evaluator) failures(c *policy.Call) ([]celrule.Violation, error) {
	in, err := r.input(c)
	if err != nil {
		return nil, err
	}
	exemption, err := celpolicy.Exempt(c)
	if err != nil || exemption.Full.Status != policy.StatusNone {
		return nil, err
	}
	in.Exceptions = exemption.Allowed
	return r.rule.Failures(c.Context(), c.Meter, in)
}

// input returns the variables of expressions for the request.
func (r *evaluator) input(c *policy.Call) (*run.Input, error) {
	in, err := celrule.Policies.Input(c)
	if err == nil && r.json {
		in.OldObject, in.Source = nil, nil
	}
	return in, err
}

// on evaluates exceptions, conditions and validations, in this order.
func (r *evaluator) on(c *policy.Call, in *run.Input) policy.Yield {
	exemption, err := celpolicy.Exempt(c)
	if err != nil {
		return unconditioned(c, err)
	}
	if exemption.Full.Status != policy.StatusNone {
		return exemption.Full
	}
	in.Exceptions = exemption.Allowed
	switch applies, err := r.rule.Applies(c.Context(), c.Meter, in); {
	case err != nil:
		return unconditioned(c, err)
	case !applies:
		return policy.Yield{Status: policy.StatusSkip, Message: textSkipped, Unmatched: true}
	}
	out, err := r.rule.Check(c.Context(), c.Meter, in)
	y := verdict(out, err)
	if err == nil {
		y.Annotations = r.rule.Audited(out.Annotations)
	}
	return y
}

// unconditioned returns the result if the conditions cannot be evaluated. With failurePolicy Ignore the policy does not match the
// request. The Program holds the effective failurePolicy, since --forceFailurePolicyIgnore changes it.
func unconditioned(c *policy.Call, err error) policy.Yield {
	if c.Program.Settings.FailurePolicy == policy.Ignore {
		return policy.Yield{Status: policy.StatusSkip, Message: textSkipped, Unmatched: true}
	}
	return failed(textContext, err)
}

func failed(text string, err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: text + celpolicy.Text(err), Cause: err, Part: celpolicy.PartEvaluation}
}

// verdict converts the outcome of validations and audit annotations to a result.
func verdict(out celrule.Outcome, err error) policy.Yield {
	if out.Failed == nil {
		if err != nil { // the error of an audit annotation
			return failed(textContext, err)
		}
		return policy.Yield{Status: policy.StatusPass, Message: textPassed, Properties: out.Annotations}
	}
	index := strconv.Itoa(out.Index)
	properties := maps.Clone(out.Annotations)
	if properties == nil {
		properties = map[string]string{}
	}
	properties[celpolicy.PropertyIndex] = index
	y := policy.Yield{Status: policy.StatusFail, Properties: properties}
	switch {
	case err != nil:
		y.Status, y.Message, y.Cause = policy.StatusError, textError+celpolicy.Text(err), err
		y.Properties = map[string]string{celpolicy.PropertyIndex: index}
	default:
		y.Message = celpolicy.Failure(out)
	}
	return y
}
