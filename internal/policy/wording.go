package policy

// Wording formats the answers of a route. It makes no decisions.
type Wording struct {
	// Refusal returns the text for a denied request. by is the index of the first result that denies it.
	Refusal func(out *Outcome, by int) string
	// Warning returns the text for a result's warning.
	Warning func(r *Result) string
	// WithRefusal: denials include warnings, too.
	WithRefusal bool
}
