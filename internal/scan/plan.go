package scan

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
)

// Resource is a kind as the API server serves it.
type Resource struct {
	schema.GroupVersionResource
	Kind string
}

// GVK returns the resource's kind with group and version.
func (r Resource) GVK() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

// kinds are the kinds to scan. A resource that is served in several versions is scanned in only one.
type kinds map[schema.GroupResource]*set

// plan returns the kinds to scan. If discovery of some kinds fails, it returns the error and the other kinds.
func plan(s *catalog.Snapshot, served discovery.Resources) (kinds, error) {
	out, rules := kinds{}, RulesOf(s)
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
					if t.Wild() && (!ephemeral.Reportable(resource.GVK().GroupKind()) || one.Listable && !one.Watchable) || resource.Kind == "Event" {
						continue // kinds that can be listed only are measurements, such as those of metrics.k8s.io
					}
					out.add(resource, s, rules, p, r)
				}
			}
		}
	}
	return out, errors.Join(errs...)
}

// add adds a rule to the set of the kind.
func (k kinds) add(resource Resource, s *catalog.Snapshot, rules Rules, p *policy.Program, r *policy.Rule) {
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
