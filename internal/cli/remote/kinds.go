package remote

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Served are the resources of one cluster, with the groups in the API server's order.
type Served struct{ list discovery.List }

// servedBy queries the API server. A group that cannot be listed (a broken aggregated API) does not hide the others.
func servedBy(from clientdiscovery.ServerResourcesInterface) (*Served, error) {
	list, err := discovery.Fetch(from)
	if err != nil {
		return nil, err
	}
	return &Served{list}, nil
}

// Wanted returns the resources that a target selects, each in one version: the preferred version of its group if the
// target allows it. It returns only resources that can be listed and subresources that can be read.
func (s *Served) Wanted(t policy.Target) []discovery.Resource {
	found, _ := s.Find(t)
	return discovery.OneVersion(found)
}

// Find implements discovery.Resources for resources that can be read. The error is always nil.
func (s *Served) Find(t policy.Target) ([]discovery.Resource, error) {
	found, _ := s.list.Find(t)
	return slices.DeleteFunc(found, func(r discovery.Resource) bool {
		return r.Subresource == "" && !r.Listable || r.Subresource != "" && !r.Readable
	}), nil
}

// Of returns the main resources of a kind.
func (s *Served) Of(gvk schema.GroupVersionKind) []discovery.Resource {
	found, _ := s.list.Find(policy.Target{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})
	return found
}

// All returns the resources that the policies match, in the order of the policies.
func (s *Served) All(programs []*policy.Program) []discovery.Resource {
	var out []discovery.Resource
	for _, p := range programs {
		for _, r := range p.Rules {
			for _, t := range r.Targets {
				if t.Unlisted {
					continue // the objects are those of Pods
				}
				for _, k := range s.Wanted(t) {
					if !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	return out
}

// lookups returns the lookups of kinds that rules need.
func (s *Served) lookups() world.Kinds {
	return world.Kinds{Namespaced: discovery.Kinds{Resources: s.list}.Namespaced, Find: discovery.Kinds{Resources: s}.Find}
}
