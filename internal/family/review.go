package family

// Review is the set of webhooks that ask about policies of a kind when they are written.
type Review uint8

// The webhooks for policies.
const (
	// ReviewPolicy: the admission controller reviews them (Kyverno's kyverno-policy-validating-webhook-cfg).
	ReviewPolicy Review = 1 << iota
	// ReviewDefaults: the admission controller is asked for defaults, too (kyverno-policy-mutating-webhook-cfg).
	ReviewDefaults
	// ReviewCleanup: the cleanup controller reviews them (kyverno-cleanup-validating-webhook-cfg).
	ReviewCleanup
)

// Has reports whether any webhook of o is in r.
func (r Review) Has(o Review) bool { return r&o != 0 }

// Switch is a flag of the reports controller that says whether it follows policies of a kind.
type Switch struct {
	Flag  string
	On    bool // by default
	Usage string
	// Required: when the flag is set and the API server does not serve the kind, the controller does not start.
	Required bool
}
