package engine

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/policy"
)

// DecideMutation turns the Outcome of mutate rules into the verdict on their request. Only an
// error refuses, where a policy with failurePolicy Fail was evaluated; otherwise the policy in error has changed nothing
// and the request goes on. Warnings are given only with an allowed request.
func DecideMutation(out *policy.Outcome) policy.Decision {
	if out.FailurePolicy == policy.Fail {
		for i := range out.Results {
			if r := &out.Results[i]; r.Status == policy.StatusError || r.Status == policy.StatusFail {
				return policy.Decision{Message: mutationText(r.Program, out.Results[i:])}
			}
		}
	}
	ignoring := *out
	ignoring.FailurePolicy = policy.Ignore
	return Decide(&ignoring)
}

// mutationText names the first policy that could not change the object, with what its rules said.
func mutationText(p *policy.Program, results []policy.Result) string {
	var rules []string
	for i := range results {
		r := &results[i]
		if r.Program == p && (r.Status == policy.StatusError || r.Status == policy.StatusFail) {
			rules = append(rules, r.Rule.Name+": "+r.Message)
		}
	}
	return "mutation policy " + p.Name + " error: failed to apply policy " + p.Name + " rules [" + strings.Join(rules, " ") + "]"
}
