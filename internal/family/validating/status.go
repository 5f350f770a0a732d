package validating

import (
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
)

// status returns the status that a policy should have.
func status(object map[string]any, s family.State) (map[string]any, error) {
	p, _ := Decode(object) // the compiler reports decoding errors
	c := common(&p.Spec)
	admission, background := celpolicy.On(c.Admission), celpolicy.On(c.Background)
	return celpolicy.Status(object, s, admission || !background, background, Autogen(p, object))
}
