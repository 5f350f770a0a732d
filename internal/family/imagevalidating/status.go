package imagevalidating

import (
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
)

// status returns the status that a policy should have.
func status(object map[string]any, s family.State) (map[string]any, error) {
	p, _ := Decode(object) // the compiler reports decoding errors
	c := common(&p.Spec)
	admission, background := celpolicy.On(c.Admission), celpolicy.On(c.Background)
	tree, err := celpolicy.Status(object, s, admission || !background, background, Autogen(p, object))
	if err != nil {
		return nil, err
	}
	if conditions, ok := tree["conditionStatus"].(map[string]any); ok {
		conditions["message"] = "" // there is no native policy, but Kyverno writes the field and clients compare it
	}
	return tree, nil
}
