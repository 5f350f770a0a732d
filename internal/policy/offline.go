package policy

// Offline is what is special about a rule on the command line, which evaluates what users give it. The zero Offline is that of most rules.
type Offline struct {
	// Whole: the rule is all of its policy, and is meant where the policy is named without a rule.
	Whole bool
	// Unmatched is the result for a resource that the rule is not for; the zero Yield for none.
	Unmatched Yield
	// SkipsUncounted: results of status skip are not counted.
	SkipsUncounted bool
	// Fatal begins the error with which an error of the rule ends the run; empty where it is a result like others.
	Fatal string
}
