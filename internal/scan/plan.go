package scan

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Resource is a kind as the API server serves it.
type Resource struct {
	schema.GroupVersionResource
	Kind string
}

// GVK is the resource's kind with group and version.
func (r Resource) GVK() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

// unreported are groups and kinds that are not scanned even where a policy names all kinds: reports about reports would
// never come to an end, and events come faster than they can be evaluated.
var unreportedGroups = []string{"wgpolicyk8s.io", "openreports.io", "reports.kyverno.io"}

func unreported(r Resource) bool {
	return r.Kind == "Event" || slices.Contains(unreportedGroups, r.Group)
}

// kinds are the kinds to scan. A resource that is served in several versions is scanned in one.
type kinds map[schema.GroupResource]*set

// plan finds the kinds to scan. What could not be found out is the error; the other kinds are there.
func plan(s *catalog.Snapshot, served discovery.Resources) (kinds, error) {
	out, rules := kinds{}, rulesOf(s)
	var errs []error
	for _, p := range s.Programs() {
		for _, r := range p.Rules {
			if !ephemeral.Scannable(p, r) {
				continue
			}
			for _, t := range r.Targets {
				if !ephemeral.Covers(&t) {
					continue
				}
				found, err := served.Find(t.WithoutSubresource())
				if err != nil {
					errs = append(errs, fmt.Errorf("find out what %s names: %w", p.Key(), err))
				}
				for _, one := range discovery.OneVersion(found) {
					resource := Resource{one.GVR(), one.Kind}
					if t.Wild() && unreported(resource) || resource.Kind == "Event" {
						continue
					}
					out.add(resource, s, rules, p, r)
				}
			}
		}
	}
	return out, errors.Join(errs...)
}

// add files a rule under the kind.
func (k kinds) add(resource Resource, s *catalog.Snapshot, rules rules, p *policy.Program, r *policy.Rule) {
	entry := k[resource.GroupResource()]
	if entry == nil {
		entry = &set{resource: resource, snapshot: s, rules: rules}
		k[resource.GroupResource()] = entry
	}
	if !slices.Contains(entry.programs, p) {
		entry.programs = append(entry.programs, p)
	}
	entry.namespaceLabels = entry.namespaceLabels || r.Needs.NamespaceLabels
}
