package validating

import (
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
)

// status returns the status that a policy should have.
func status(object map[string]any, s family.State) (map[string]any, error) {
	p, _ := Decode(object) // the compiler reports decoding errors
	c := common(&p.Spec)
	admission, background := celpolicy.On(c.Admission), celpolicy.On(c.Background)
	return celpolicy.Status(object, s, admission || !background, background, Autogen(p, object))
}
