package policy

// Offline describes how a rule behaves on the command line. Most rules have the zero Offline.
type Offline struct {
	// Whole: the policy consists of this rule only, and its name without a rule name selects it.
	Whole bool
	// Unmatched is the result for a resource that the rule does not match; the zero Yield means no result.
	Unmatched Yield
	// SkipsUncounted: results of status skip are not counted.
	SkipsUncounted bool
	// Fatal is the prefix of the error with which an error of the rule ends the run; empty if such an error is an ordinary result.
	Fatal string
}
