package policy

// Offline describes the behaviour of a rule on the command line. The zero Offline is that of most rules.
type Offline struct {
	// Whole: the policy consists of this rule, which a policy name without a rule name selects.
	Whole bool
	// Unmatched is the result for a resource that the rule does not match; the zero Yield for none.
	Unmatched Yield
	// SkipsUncounted: results of status skip are not counted.
	SkipsUncounted bool
	// Fatal begins the error with which an error of the rule ends the run; empty if it is an ordinary result.
	Fatal string
}
