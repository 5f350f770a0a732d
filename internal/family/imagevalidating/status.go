package imagevalidating

import (
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
)

// textUnverifiable is the message of the status of a policy that asks for signatures.
const textUnverifiable = "signatures and attestations cannot be verified by this version: evaluations that ask for them end in an error"

// status is the status that a policy should have.
func status(object map[string]any, s family.State) (map[string]any, error) {
	p, _ := Decode(object) // the compiler reports what cannot be read
	c := common(&p.Spec)
	admission, background := celpolicy.On(c.Admission), celpolicy.On(c.Background)
	tree, err := celpolicy.Status(object, s, admission || !background, background, Autogen(p, object))
	if err != nil {
		return nil, err
	}
	if conditions, ok := tree["conditionStatus"].(map[string]any); ok {
		delete(conditions, "message")
		if s.Program != nil && s.Program.Diags.Has(diag.Unverifiable) {
			conditions["message"] = textUnverifiable
		}
	}
	return tree, nil
}
