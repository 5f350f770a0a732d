package world

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Kinds answers questions about the kinds that the cluster serves.
type Kinds struct {
	// Namespaced reports whether objects of the kind are namespaced; a kind that the cluster does not serve is a NoKindError.
	Namespaced Lookup[Kind, bool]
	// Find returns the kinds whose apiVersion and kind the wildcards match; one with several versions only once.
	Find Lookup[Kind, []Kind]
	// Resource returns the plural name of the resource of a kind; an unknown kind is an error.
	Resource Lookup[Kind, string]
	// Served returns the resources that are selected. It returns a resource that is served in several versions once. An empty list means
	// that none is served.
	Served Lookup[ResourceRequest, []Resource]
}

// Kind identifies a kind.
type Kind struct{ APIVersion, Kind string }

// Within implements Request.
func (k Kind) Within(Reach) (Request, error) { return k, nil }

// Title implements Request.
func (k Kind) Title() string { return k.APIVersion + " " + k.Kind }

// Key implements Request.
func (k Kind) Key() Key { return keyOf(k.APIVersion, k.Kind) }

// ResourceRequest selects resources. Each field may be a wildcard.
type ResourceRequest struct{ Group, Version, Plural string }

// Within implements Request.
func (r ResourceRequest) Within(Reach) (Request, error) { return r, nil }

// Title implements Request.
func (r ResourceRequest) Title() string { return r.Group + "/" + r.Version + " " + r.Plural }

// Key implements Request.
func (r ResourceRequest) Key() Key { return keyOf(r.Group, r.Version, r.Plural) }

// Resource is a resource with its kind.
type Resource struct {
	Kind
	Plural string
}

// NoKindError reports that the cluster serves no such kind.
type NoKindError struct{ APIVersion, Kind string }

func (e *NoKindError) Error() string {
	return fmt.Sprintf("no matches for kind %q in version %q", e.Kind, e.APIVersion)
}

// NoList reports whether a list failed because there are no stored objects of the kind: it is not served, or cannot be listed.
func NoList(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }
