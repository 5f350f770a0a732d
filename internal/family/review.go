package family

// Review is the set of webhooks that review policies of a kind.
type Review uint8

// The webhooks that review policies.
const (
	// ReviewPolicy: the admission controller reviews the policies (Kyverno's kyverno-policy-validating-webhook-cfg).
	ReviewPolicy Review = 1 << iota
	// ReviewDefaults: the admission controller may also set defaults (kyverno-policy-mutating-webhook-cfg).
	ReviewDefaults
	// ReviewCleanup: the cleanup controller reviews the policies (kyverno-cleanup-validating-webhook-cfg).
	ReviewCleanup
)

// Has reports whether r contains any webhook of o.
func (r Review) Has(o Review) bool { return r&o != 0 }

// Switch is a flag of the reports controller that includes policies of a kind.
type Switch struct {
	Flag  string
	On    bool // the default
	Usage string
	// Required: the controller does not start if the flag is set and the API server does not serve the kind.
	Required bool
}
