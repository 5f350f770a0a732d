package world

import "context"

// Only functions of CEL policies use the interfaces below.

// HTTP calls HTTP services and returns any answer.
type HTTP interface {
	// Exchange sends the request. The answer has statusCode, and the members of the body if that is a JSON object, otherwise body; a body
	// that is not JSON is null. Any status is an answer; an error means that there was none.
	Exchange(ctx context.Context, r ServiceRequest) (map[string]any, error)
}

// HTTPFunc adapts a function to HTTP.
type HTTPFunc func(ctx context.Context, r ServiceRequest) (map[string]any, error)

// Exchange calls f.
func (f HTTPFunc) Exchange(ctx context.Context, r ServiceRequest) (map[string]any, error) {
	return f(ctx, r)
}

// ResourceFinder is an optional interface of Kinds: it finds the resource of a kind.
type ResourceFinder interface {
	// Resource returns the plural name of the resource; an unknown kind is an error.
	Resource(ctx context.Context, apiVersion, kind string) (plural string, err error)
}

// ResourceKinds is an optional interface of Kinds: it finds the kinds of resources.
type ResourceKinds interface {
	// Served returns the resources of the group, version and plural name, each of which may be a wildcard. It returns a resource that is
	// served in several versions once. An empty list means that none is served.
	Served(ctx context.Context, group, version, plural string) ([]Resource, error)
}

// Resource is a resource with its kind.
type Resource struct {
	Kind
	Plural string
}

// NoGlobalError is the error of Globals for an entry that does not exist.
type NoGlobalError struct{ Message string }

func (e *NoGlobalError) Error() string { return e.Message }

// NoProjectionError is the error for a projection that an entry does not have.
type NoProjectionError struct{ Entry, Projection string }

func (e *NoProjectionError) Error() string {
	return "the GlobalContextEntry " + e.Entry + " has no projection " + e.Projection
}
