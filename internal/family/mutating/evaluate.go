package mutating

import (
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// These texts are Kyverno's, verbatim.
const (
	textMutated    = "success"
	textSkipped    = "skip"
	textNotApplied = "mutation is not applied"
	textFailed     = "failed to evaluate policy: "
	textExtraction = "extraction mode: mutation for custom workload CRDs is not yet supported"
)

// variant is the policy for one group of resources: those that the policy names, or Pod controllers.
type variant struct {
	subject   *celpolicy.Subject
	mutations []celrule.Mutation
	merging   celrule.Merging
	// extracts: the rule must search the resources for Pod templates.
	extracts bool
}

// eval changes the object of the request.
func (v *variant) eval(c *policy.Call) policy.Yield {
	if v.extracts {
		return policy.Yield{Status: policy.StatusSkip, Message: textExtraction}
	}
	in, err := input(c)
	if err != nil {
		return failed(err)
	}
	exemption, err := celpolicy.Exempt(c)
	switch {
	case err != nil:
		return failed(err)
	case exemption.Full.Status != policy.StatusNone:
		return exemption.Full
	}
	in.Exceptions = exemption.Allowed
	run := v.subject.Rule.Begin(c.Context(), c.Meter, in)
	if ok, err := run.Applies(); err != nil {
		return failed(err)
	} else if !ok {
		return policy.Yield{Status: policy.StatusSkip, Message: textSkipped, Unmatched: true}
	}
	return v.apply(c, run)
}

// wouldChange reports whether the policy would change the object.
func (v *variant) wouldChange(c *policy.Call) policy.Yield {
	y := v.eval(c)
	if y.Object != nil {
		y.Status, y.Message, y.Object = policy.StatusFail, textNotApplied, nil
	}
	return y
}

// apply applies the mutations to the object of the run.
func (v *variant) apply(c *policy.Call, run *celrule.Run) policy.Yield {
	before := run.Object()
	for _, m := range v.mutations {
		if err := run.Mutate(m, v.merging); err != nil {
			return failed(err)
		}
	}
	y := policy.Yield{Status: policy.StatusPass, Message: textMutated}
	var err error
	if y.Properties, err = run.Annotations(); err != nil {
		return failed(err)
	}
	y.Annotations = v.subject.Rule.Audited(y.Properties)
	equal, err := c.Meter.Equal(before, run.Object())
	if err != nil {
		return failed(err)
	}
	if !equal {
		y.Object = value.Of(run.Object())
	}
	return y
}

// failed returns the result of a policy that could not be evaluated.
func failed(err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: textFailed + celpolicy.Text(err), Cause: err, Part: celpolicy.PartEvaluation}
}
