package policy

// Wording is how a route words its answers. It decides nothing.
type Wording struct {
	// Refusal words a refused request; by is the index of the first result that refuses it.
	Refusal func(out *Outcome, by int) string
	// Warning words the warning of a result.
	Warning func(r *Result) string
	// WithRefusal: warnings are given with a refusal, too.
	WithRefusal bool
}
