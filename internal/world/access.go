package world

import (
	"context"
)

// Access answers what users may do.
type Access interface {
	// Allowed reports whether the request would be allowed, and why. An error means that it is not known.
	Allowed(ctx context.Context, r AccessRequest) (allowed bool, reason string, err error)
}

// AccessRequest is something that a user may want to do: a verb on a resource, or on a Path of the API server.
type AccessRequest struct {
	Username, UID string
	Groups        []string
	Extra         map[string][]string

	Verb                                  string
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
	Path                                  string
}

// Kinds tells the scope of kinds.
type Kinds interface {
	// Namespaced reports whether objects of the kind lie in namespaces; an unknown kind is an error.
	Namespaced(ctx context.Context, apiVersion, kind string) (bool, error)
}
