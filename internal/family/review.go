package family

// Review is the set of webhooks that review policies of a kind.
type Review uint8

// The webhooks for policies.
const (
	// ReviewPolicy: the admission controller reviews them (Kyverno's kyverno-policy-validating-webhook-cfg).
	ReviewPolicy Review = 1 << iota
	// ReviewDefaults: the admission controller may set defaults, too (kyverno-policy-mutating-webhook-cfg).
	ReviewDefaults
	// ReviewCleanup: the cleanup controller reviews them (kyverno-cleanup-validating-webhook-cfg).
	ReviewCleanup
)

// Has reports whether any webhook of o is in r.
func (r Review) Has(o Review) bool { return r&o != 0 }

// Switch is a flag of the reports controller that enables policies of a kind.
type Switch struct {
	Flag  string
	On    bool // by default
	Usage string
	// Required: if the flag is set and the API server does not serve the kind, the controller does not start.
	Required bool
}
