package celpolicy

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
)

// These texts are Kyverno's, verbatim.
const (
	textSkipped = "rule is skipped due to policy exception: "
	textPassed  = "rule is passed due to policy exception: "
)

// Exemption is what the exceptions of a rule mean for a request.
type Exemption struct {
	// Full is the result when an exception exempts the request as a whole; else its status is StatusNone.
	Full policy.Yield
	// Allowed are the images and values of the exceptions that relax the policy in part.
	Allowed celenv.Exceptions
}

// Exempt evaluates the exceptions of the rule in their order. The error is that of conditions without a value, unless an exception
// before them exempts the request.
func Exempt(c *policy.Call) (Exemption, error) {
	var out Exemption
	if len(c.Rule.Exceptions) == 0 {
		return out, nil
	}
	var full []*policy.Exception
	for _, e := range c.Rule.Exceptions {
		if e.Conditions != nil {
			ok, err := e.Conditions(c, nil)
			if err != nil && len(full) == 0 {
				return out, err
			}
			if err != nil || !ok {
				continue
			}
		}
		if e.Partial() {
			out.Allowed.AllowedImages = append(out.Allowed.AllowedImages, e.Images...)
			out.Allowed.AllowedValues = append(out.Allowed.AllowedValues, e.Values...)
			continue
		}
		full = append(full, e)
	}
	if len(full) > 0 {
		out.Full = exempted(full)
	}
	return out, nil
}

// exempted is the result of a request that the exceptions exempt. The one of the highest priority says whether that is a skip or a pass.
func exempted(by []*policy.Exception) policy.Yield {
	keys, first := make([]string, len(by)), by[0]
	for i, e := range by {
		keys[i] = e.Key()
		if e.Priority > first.Priority {
			first = e
		}
	}
	y := policy.Yield{Status: policy.StatusSkip, Message: textSkipped + strings.Join(keys, ", "), Exceptions: keys, Part: PartException}
	if first.ReportPass {
		y.Status, y.Message = policy.StatusPass, textPassed+strings.Join(keys, ", ")
	}
	return y
}
