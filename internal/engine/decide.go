package engine

import (
	"github.com/ephor-dev/ephor/internal/policy"
)

// Decide turns an Outcome into the verdict on its request. A request is refused when a rule
// whose effective action is Enforce failed, or when a rule ended in an error and a policy with failurePolicy Fail was
// evaluated. Warnings are given only with an allowed request.
func Decide(out *policy.Outcome) policy.Decision {
	for i := range out.Results {
		r := &out.Results[i]
		switch {
		case r.Status == policy.StatusFail && r.Action == policy.Enforce,
			r.Status == policy.StatusError && out.FailurePolicy == policy.Fail:
			return policy.Decision{Message: denialText(out.Request, out.Results)}
		}
	}
	d := policy.Decision{Allowed: true, Warnings: out.Warnings}
	for i := range out.Results {
		r := &out.Results[i]
		if r.Warn || r.Program.Settings.EmitWarning && r.Status != policy.StatusSkip {
			d.Warnings = append(d.Warnings, "policy "+r.Program.Name+"."+r.Rule.Name+": "+r.Message)
		}
	}
	return d
}
