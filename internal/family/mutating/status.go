package mutating

import (
	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
)

// status returns the status that a policy should have.
func status(object map[string]any, s family.State) (map[string]any, error) {
	p, _ := Decode(object) // the compiler reports decoding errors
	var e policiesv1beta1.MutatingPolicyEvaluation
	if p.Spec.Evaluation != nil {
		e = *p.Spec.Evaluation
	}
	admission, background := celpolicy.On(e.Admission), celpolicy.On(e.Background)
	return celpolicy.Status(object, s, admission, background, Autogen(p))
}
