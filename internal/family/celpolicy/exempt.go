package celpolicy

import (
	"strings"

	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/exempt"
	"ephor.invalid/ephor/internal/policy"
)

// terms define how exceptions apply to the policies; deleting is for policies that delete objects. The texts are Kyverno's, verbatim.
var (
	terms = &exempt.Terms{
		Skipped: "rule is skipped due to policy exception: ", Passed: "rule is passed due to policy exception: ",
		Part: PartException, InParts: true,
	}
	deleting = func() *exempt.Terms { t := *terms; t.Strict = true; return &t }()
)

// Exemption is the effect of a rule's exceptions on a request.
type Exemption struct {
	// Full is the result if an exception exempts the whole request; otherwise its status is StatusNone.
	Full policy.Yield
	// Allowed are the images and values that exceptions allow in spite of the policy.
	Allowed run.Exceptions
}

// Exempt evaluates the exceptions of the rule in order. An exception that cannot be evaluated exempts nothing; the error means that the time
// for the evaluation is over.
func Exempt(c *policy.Call) (Exemption, error) { return exemptOn(terms, c) }

// ExemptTrigger is Exempt for the trigger of deferred work: like the policy, exceptions see the last state of a deleted trigger as object.
func ExemptTrigger(c *policy.Call) (Exemption, error) {
	if r := c.Request; r.Operation == policy.Delete && r.OldObject != nil && len(c.Rule.Exceptions) > 0 {
		of := *c
		of.Request = r.WithObject(r.OldObject)
		c = &of
	}
	return Exempt(c)
}

// ExemptFromDeletion is Exempt for a deletion, which cannot be undone: an exception that cannot be evaluated is an error, unless another one
// exempts the object.
func ExemptFromDeletion(c *policy.Call) (Exemption, error) { return exemptOn(deleting, c) }

func exemptOn(terms *exempt.Terms, c *policy.Call) (out Exemption, err error) {
	if len(c.Rule.Exceptions) == 0 {
		return out, nil
	}
	verdict, err := terms.Evaluate(c, nil)
	if verdict == nil {
		return out, err
	}
	out.Full = verdict.Result
	for _, e := range verdict.Partial {
		out.Allowed.AllowedImages = append(out.Allowed.AllowedImages, e.Images...)
		out.Allowed.AllowedValues = append(out.Allowed.AllowedValues, e.Values...)
	}
	return out, err
}

// Skipped returns the result of an exemption as a skip, even if the exception asks for a pass.
func Skipped(y policy.Yield) policy.Yield {
	y.Status, y.Message = policy.StatusSkip, terms.Skipped+strings.Join(policy.ExceptionKeys(y.Exceptions), ", ")
	return y
}
