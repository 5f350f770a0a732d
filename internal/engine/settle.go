package engine

import (
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/policy"
)

// settle replaces the results that depend on those of other rules. before are results of the same request from other evaluations.
func settle(out *policy.Outcome, before []policy.Result) {
	var all []policy.Result
	for i := range out.Results {
		r := &out.Results[i]
		if r.Signatures == nil || r.Signatures.Settle == nil {
			continue
		}
		if all == nil {
			all = slices.Concat(before, out.Results)
		}
		y := settled(r, all)
		bound(&y)
		r.Yield = y
	}
}

// settled returns the yield that replaces r.
func settled(r *policy.Result, all []policy.Result) (y policy.Yield) {
	defer func() {
		if v := recover(); v != nil {
			y = policy.Yield{Status: policy.StatusError, Message: fmt.Sprintf("rule %s panicked: %v", r.Rule.Name, v)}
		}
	}()
	y = r.Signatures.Settle(all)
	if y.Signatures != nil {
		final := *y.Signatures
		final.Settle = nil
		y.Signatures = &final
	}
	return y
}
