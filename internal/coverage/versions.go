package coverage

import (
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// Versions holds, for each resource that selectors name, the other versions that the API server converts to it.
type Versions map[Resource][]Resource

// Add records the other versions of the resources that a selector selects.
func (v Versions) Add(t policy.Target, resources []Resource, known discovery.Resources) error {
	if t.Version == "*" && (t.Group == "*" || t.ByResource()) || t.Resource == "*" {
		return nil // the selector names all versions, or no resource
	}
	found, err := known.Find(policy.Target{Group: "*", Version: "*", Kind: t.Kind, Resource: t.Resource, Subresource: t.Subresource})
	if err != nil {
		return err
	}
	for _, r := range resources {
		for _, f := range found {
			if other := Found(f); other.Converts(r) {
				v[r] = append(v[r], other)
			}
		}
	}
	return nil
}

// Unnamed returns the versions that a set does not name, with the operations for which it names another version of the resource.
func (v Versions) Unnamed(s Set) Set {
	out := Set{}
	for r, others := range v {
		for _, other := range others {
			own := s.On(other)
			for op := range s[r] {
				if !own[op] {
					out.Add(OperationsOf(op), other)
				}
			}
		}
	}
	return out
}
