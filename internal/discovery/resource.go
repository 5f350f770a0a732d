package discovery

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// Resource is one resource or subresource that the API server serves.
type Resource struct {
	Group, Version, Resource, Subresource string
	// Kind is the kind of the main resource, even for subresources.
	Kind       string
	Namespaced bool
	// Preferred: the version is the one that the group prefers.
	Preferred bool
	// Listable, Watchable and Readable: the API server supports the verb list, watch or get.
	Listable, Watchable, Readable bool
	// Body is the kind of the objects that are sent to a subresource; for a main resource it is its own kind.
	Body schema.GroupVersionKind
}

// GVR returns the main resource.
func (r Resource) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

// GVK returns the kind of the main resource.
func (r Resource) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// APIVersion returns group and version as objects write them.
func (r Resource) APIVersion() string { return r.GVK().GroupVersion().String() }

// Resources resolves targets on the API server.
type Resources interface {
	// Find returns the resources that a target selects by groups, versions, kinds or resources, subresources and scope. A target by kind
	// without a subresource selects main resources only, and one with a subresource selects subresources only. No resources and no error
	// mean that the API server serves no such kind. An error that wraps *discovery.ErrGroupDiscoveryFailed of client-go concerns this
	// target only; any other error means that nothing could be listed.
	Find(policy.Target) ([]Resource, error)
}

// List is a list of resources that does not change.
type List []Resource

// Find implements Resources; the error is always nil.
func (l List) Find(t policy.Target) ([]Resource, error) { return l.filter(selects(&t)), nil }

// Unlisted returns nil: the list is complete.
func (List) Unlisted(policy.Target) error { return nil }

func (l List) filter(want func(*Resource) bool) []Resource {
	var out []Resource
	for i := range l {
		if want(&l[i]) {
			out = append(out, l[i])
		}
	}
	return out
}

// selects returns a function that reports whether a target selects a resource.
func selects(t *policy.Target) func(*Resource) bool {
	inScope := func(r *Resource) bool {
		switch t.Scope {
		case policy.NamespacedScope:
			return r.Namespaced
		case policy.ClusterScope:
			return !r.Namespaced
		}
		return true
	}
	if t.ByResource() {
		is := func(want, have string) bool { return want == "*" || want == have }
		return func(r *Resource) bool {
			return is(t.Resource, r.Resource) && is(t.Group, r.Group) && is(t.Version, r.Version) && is(t.Subresource, r.Subresource) && inScope(r)
		}
	}
	return func(r *Resource) bool {
		return (t.Subresource == "") == (r.Subresource == "") && wildcard.Match(t.Subresource, r.Subresource) &&
			wildcard.Match(t.Kind, r.Kind) && wildcard.Match(t.Group, r.Group) && wildcard.Match(t.Version, r.Version) && inScope(r)
	}
}

// OneVersion returns each resource and subresource in one version: the one that its group prefers if it is among them, else the first.
func OneVersion(found []Resource) []Resource {
	var out []Resource
	for _, r := range found {
		at := slices.IndexFunc(out, func(o Resource) bool {
			return o.Group == r.Group && o.Resource == r.Resource && o.Subresource == r.Subresource
		})
		switch {
		case at < 0:
			out = append(out, r)
		case r.Preferred && !out[at].Preferred:
			out[at] = r
		}
	}
	return out
}

// Main returns the main resources in the list.
func Main(found []Resource) []Resource {
	return List(found).filter(func(r *Resource) bool { return r.Subresource == "" })
}

// listOf returns the resources in the answer of an API server.
func listOf(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) List {
	preferred := map[string]bool{}
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
	}
	var out List
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		kinds := map[string]string{}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; !strings.Contains(r.Name, "/") {
				kinds[r.Name] = r.Kind
			}
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			name, sub, _ := strings.Cut(r.Name, "/")
			kind := kinds[name]
			if kind == "" {
				continue // policies cannot name a subresource without a main resource
			}
			body := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
			if body.Version == "" {
				body.Group, body.Version = gv.Group, gv.Version
			}
			out = append(out, Resource{
				Group: gv.Group, Version: gv.Version, Resource: name, Subresource: sub, Kind: kind, Namespaced: r.Namespaced,
				Preferred: preferred[list.GroupVersion], Listable: slices.Contains(r.Verbs, "list"), Watchable: slices.Contains(r.Verbs, "watch"), Readable: slices.Contains(r.Verbs, "get"), Body: body,
			})
		}
	}
	return out
}
