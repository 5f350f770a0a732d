package engine

import (
	"ephor.invalid/ephor/internal/policy"
)

// Decide derives the verdict on the request from an Outcome. It denies the request if a rule with a denying action failed, or if a rule
// ended in an error that denies (policy.ErrorMeaning). An admitted request gets warnings; a denied one gets them only if the Wording
// requests it.
func Decide(out *policy.Outcome, words Wording) policy.Decision {
	for i := range out.Results {
		if refuses(out, &out.Results[i]) {
			d := policy.Decision{Message: words.Refusal(out, i)}
			if words.WithRefusal {
				d.Warnings = Warnings(out, words)
			}
			return d
		}
	}
	return policy.Decision{Allowed: true, Warnings: Warnings(out, words)}
}

// Warnings returns the warnings of an admitted request.
func Warnings(out *policy.Outcome, words Wording) []string {
	warnings := out.Warnings
	for i := range out.Results {
		if r := &out.Results[i]; warns(r) {
			warnings = append(warnings, words.Warning(r))
		}
	}
	return warnings
}

func refuses(out *policy.Outcome, r *policy.Result) bool {
	switch r.Status {
	case policy.StatusFail:
		return r.Action.Has(policy.Deny)
	case policy.StatusError:
		if r.Rule.VerifiesImages && !r.Action.Has(policy.Deny) {
			return false
		}
		switch r.Rule.OnError {
		case policy.ErrorByAction:
			return r.Action.Has(policy.Deny) && !(r.Unknown && r.Program.Settings.FailurePolicy == policy.Ignore)
		case policy.ErrorByOwn:
			return r.Program.Settings.FailurePolicy == policy.Fail
		}
		return out.FailurePolicy == policy.Fail
	}
	return false
}

func warns(r *policy.Result) bool {
	switch {
	case r.Warn, r.Status == policy.StatusError && r.Rule.VerifiesImages && !r.Action.Has(policy.Deny):
		return true
	case r.Program.Settings.EmitWarning && r.Status != policy.StatusSkip:
		return true
	}
	return r.Action.Has(policy.Warn) && (r.Status == policy.StatusFail || r.Status == policy.StatusError)
}
