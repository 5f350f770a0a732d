package policy

// Offline describes how a rule behaves on the command line. Most rules have the zero Offline.
type Offline struct {
	// Whole: the policy consists of this rule only, so tables do not repeat its name.
	Whole bool
	// Silent: the policy has no response for a resource that it does not match, as all policies that generate or delete. An expectation
	// of test for the resource then fails, instead of passing as excluded.
	Silent bool
	// Unmatched is the result for a resource that the rule does not match; the zero Yield means no result.
	Unmatched Yield
	// SkipsUncounted: results of status skip are not counted.
	SkipsUncounted bool
}
