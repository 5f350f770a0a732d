package remote

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Served are the resources that one cluster serves, with the groups in the API server's order. A group that cannot be listed (a broken
// aggregated API) does not hide the others; a method whose answer may lack resources of such a group returns what it found and an error.
type Served struct{ all *discovery.Discovery }

// servedBy queries the API server.
func servedBy(from clientdiscovery.ServerResourcesInterface) (*Served, error) {
	all := discovery.New(from, time.Now)
	if _, err := all.Find(policy.Target{Version: "v1", Kind: "Namespace"}); err != nil {
		return nil, err
	}
	return &Served{all}, nil
}

// Wanted returns the resources that a target selects, each in one version: the preferred version of its group if the
// target allows it. It returns only resources that can be listed and subresources that can be read.
func (s *Served) Wanted(t policy.Target) ([]discovery.Resource, error) {
	found, err := s.Find(t)
	return discovery.OneVersion(found), cmp.Or(err, s.all.Unlisted(t))
}

// Find implements discovery.Resources for resources that can be read.
func (s *Served) Find(t policy.Target) ([]discovery.Resource, error) {
	found, err := s.all.Find(t)
	return slices.DeleteFunc(found, func(r discovery.Resource) bool {
		return r.Subresource == "" && !r.Listable || r.Subresource != "" && !r.Readable
	}), err
}

// Of returns the main resources of a kind.
func (s *Served) Of(gvk schema.GroupVersionKind) ([]discovery.Resource, error) {
	return s.all.Find(policy.Target{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})
}

// All returns the resources that the policies match, in the order of the policies.
func (s *Served) All(programs []*policy.Program) ([]discovery.Resource, error) {
	var out []discovery.Resource
	var unlisted error
	for _, p := range programs {
		for _, r := range p.Rules {
			for _, t := range r.Targets {
				if t.Unlisted {
					continue // the objects are those of Pods
				}
				found, err := s.Wanted(t)
				unlisted = cmp.Or(unlisted, err)
				for _, k := range found {
					if !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	return out, unlisted
}

// lookups returns the lookups of kinds that rules need.
func (s *Served) lookups() world.Kinds {
	return world.Kinds{Namespaced: discovery.Kinds{Resources: s.all}.Namespaced, Find: discovery.Kinds{Resources: s}.Find}
}
