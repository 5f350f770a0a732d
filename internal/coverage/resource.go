package coverage

import (
	"cmp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// Resource is what a webhook rule says of resources: a group, a version, a resource, perhaps a subresource, and a scope. Each may be `*`.
type Resource struct {
	Group, Version, Name, Subresource string
	Scope                             admissionv1.ScopeType
	// Authored: an author wrote the rule by resource, so nothing is added to it.
	Authored bool
}

// Found returns the Resource of a resource that the API server serves.
func Found(r discovery.Resource) Resource {
	scope := admissionv1.AllScopes
	if r.Namespaced {
		scope = admissionv1.NamespacedScope
	}
	return Resource{Group: r.Group, Version: r.Version, Name: r.Resource, Subresource: r.Subresource, Scope: scope}
}

// Of returns the resources that a selector of a policy selects. served is false if it selects nothing that the API server serves. A selector by
// resource is returned as it is, because the API server accepts rules for resources that it does not serve yet. A namespaced policy selects
// only namespaced resources, since it matches nothing else.
func Of(t policy.Target, namespacedPolicy bool, known discovery.Resources) (resources []Resource, served bool, err error) {
	if t.ByResource() {
		r := Resource{Group: t.Group, Version: t.Version, Name: t.Resource, Subresource: t.Subresource,
			Scope: cmp.Or(admissionv1.ScopeType(t.Scope), admissionv1.AllScopes), Authored: true}
		if namespacedPolicy {
			if r.Scope == admissionv1.ClusterScope {
				return nil, true, nil
			}
			r.Scope = admissionv1.NamespacedScope
		}
		return []Resource{r}, true, nil
	}
	if t.Everything() {
		// Wildcards are not resolved, so that they also cover kinds that are installed later.
		scope := admissionv1.AllScopes
		if namespacedPolicy {
			scope = admissionv1.NamespacedScope
		}
		return []Resource{{Group: "*", Version: "*", Name: "*", Subresource: t.Subresource, Scope: scope}}, true, nil
	}
	found, err := known.Find(t)
	if err != nil {
		return nil, false, err
	}
	for _, r := range found {
		if !namespacedPolicy || r.Namespaced {
			resources = append(resources, Found(r))
		}
	}
	return resources, len(found) > 0, nil
}

// Covers reports whether r covers everything that o covers. `*`, `*/*` and `pods/*` cover `pods`. A main resource covers no subresource.
func (r Resource) Covers(o Resource) bool {
	if r.Group != "*" && r.Group != o.Group || r.Version != "*" && r.Version != o.Version || r.Scope != admissionv1.AllScopes && r.Scope != o.Scope {
		return false
	}
	if r.Name != "*" && r.Name != o.Name {
		return false
	}
	switch r.Subresource {
	case "":
		return o.Subresource == ""
	case "*":
		return true
	}
	return r.Subresource == o.Subresource
}

// meets reports whether something may be covered by both, in whatever version.
func (r Resource) meets(o Resource) bool {
	either := func(x, y, any string) bool { return x == y || x == any || y == any }
	return either(r.Group, o.Group, "*") && either(r.Name, o.Name, "*") && either(r.Subresource, o.Subresource, "*") &&
		either(string(r.Scope), string(o.Scope), string(admissionv1.AllScopes))
}

// Converts reports whether the API server can send a request for r as a request for o, another version of the same resource. Events are the
// only resource that is served in two groups.
func (r Resource) Converts(o Resource) bool {
	if r == o || r.Name != o.Name || r.Subresource != o.Subresource {
		return false
	}
	if r.Name == "events" {
		return eventGroup(r.Group) && eventGroup(o.Group)
	}
	return r.Group == o.Group || o.Group == "*"
}

func eventGroup(group string) bool { return slices.Contains(eventGroups, group) }

var eventGroups = []string{"", "events.k8s.io"}

// GroupsOf returns the groups of the requests that the API server sends for a resource of a group: Events also come from their other group.
func GroupsOf(group, resource string) []string {
	if resource == "events" && eventGroup(group) {
		return eventGroups
	}
	return []string{group}
}

// String returns the resource as a webhook rule writes it, such as pods/exec.
func (r Resource) String() string {
	if r.Subresource == "" {
		return r.Name
	}
	return r.Name + "/" + r.Subresource
}
