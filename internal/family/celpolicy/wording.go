package celpolicy

import (
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// Validating formats denials by policies with validations. The texts are copied verbatim from Kyverno.
var Validating = policy.Wording{
	Refusal: func(out *policy.Outcome, _ int) string {
		var texts []string
		for i := range out.Results {
			if r := &out.Results[i]; r.Action.Has(policy.Deny) && (r.Status == policy.StatusFail || r.Status == policy.StatusError) {
				texts = append(texts, piece(r))
			}
		}
		return strings.Join(texts, "; ")
	},
	Warning:     piece,
	WithRefusal: true,
}

func piece(r *policy.Result) string {
	what := "failed"
	if r.Status == policy.StatusError {
		what = "error"
	}
	return "Policy " + r.Program.Name + " " + what + ": " + r.Message
}

// Mutating formats denials after a failed mutation.
var Mutating = policy.Wording{
	Refusal: func(out *policy.Outcome, _ int) string {
		var texts []string
		for i := range out.Results {
			if r := &out.Results[i]; r.Status == policy.StatusError && r.Program.Settings.FailurePolicy == policy.Fail {
				texts = append(texts, "Policy "+r.Program.Name+": "+r.Message)
			}
		}
		req := out.Request
		return "Resource: " + req.Namespace + "/" + req.Name + ", Kind: " + req.GVK.Kind + ", Errors: [" + strings.Join(texts, " ") + "]"
	},
	Warning: piece,
}
