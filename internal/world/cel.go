package world

import "context"

// What follows is asked by the functions of CEL policies only.

// HTTP asks HTTP services and gives whatever they answer.
type HTTP interface {
	// Exchange sends the request. The answer has statusCode, and besides the members of the body when that is a JSON object, else
	// body; a body that is no JSON is null. Any status is an answer; an error means that there was none.
	Exchange(ctx context.Context, r ServiceRequest) (map[string]any, error)
}

// HTTPFunc adapts a function to HTTP.
type HTTPFunc func(ctx context.Context, r ServiceRequest) (map[string]any, error)

// Exchange calls f.
func (f HTTPFunc) Exchange(ctx context.Context, r ServiceRequest) (map[string]any, error) {
	return f(ctx, r)
}

// ResourceFinder is what Kinds may be too: it finds the resource of a kind.
type ResourceFinder interface {
	// Resource returns the plural name of the resource; an unknown kind is an error.
	Resource(ctx context.Context, apiVersion, kind string) (plural string, err error)
}

// ResourceKinds is what Kinds may be too: it finds the kinds of resources.
type ResourceKinds interface {
	// Served returns the resources of the group, version and plural name, each of which may be a wildcard. One that is served in several
	// versions is there once. None is served where it returns none.
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

// NoProjectionError says that an entry has no projection of the name.
type NoProjectionError struct{ Entry, Projection string }

func (e *NoProjectionError) Error() string {
	return "the GlobalContextEntry " + e.Entry + " has no projection " + e.Projection
}
