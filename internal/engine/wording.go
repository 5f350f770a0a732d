package engine

import (
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// Wording formats the answers of a route. It makes no decisions.
type Wording = policy.Wording

// ValidateWording formats denials by classic policies for the object or its images.
var ValidateWording = Wording{
	Refusal: func(out *policy.Outcome, _ int) string { return denialText(out.Request, out.Results) },
	Warning: classicWarning,
}

// MutateWording formats denials by classic policies after a failed mutation. A policy with an error changes nothing.
var MutateWording = Wording{
	Refusal: func(out *policy.Outcome, by int) string {
		return mutationText(out.Results[by].Program, out.Results[by:])
	},
	Warning: classicWarning,
}

func classicWarning(r *policy.Result) string {
	return "policy " + r.Program.Name + "." + r.Rule.Name + ": " + r.Explained()
}

// mutationText names the first policy that could not change the object, with the messages of its rules.
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
