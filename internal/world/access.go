package world

import (
	"context"
	"fmt"
)

// Access checks the rights of users.
type Access interface {
	// Allowed reports whether the request would be allowed, and why. An error means that the result is unknown.
	Allowed(ctx context.Context, r AccessRequest) (allowed bool, reason string, err error)
}

// AccessRequest is an action whose permission is checked: a verb on a resource, or on a Path of the API server.
type AccessRequest struct {
	Username, UID string
	Groups        []string
	Extra         map[string][]string

	Verb                                  string
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
	Path                                  string
}

// Kinds returns the scope of kinds.
type Kinds interface {
	// Namespaced reports whether objects of the kind are namespaced; a kind that the cluster does not serve is a NoKindError.
	Namespaced(ctx context.Context, apiVersion, kind string) (bool, error)
}

// NoKindError reports that the cluster serves no such kind.
type NoKindError struct{ APIVersion, Kind string }

func (e *NoKindError) Error() string {
	return fmt.Sprintf("no matches for kind %q in version %q", e.Kind, e.APIVersion)
}
