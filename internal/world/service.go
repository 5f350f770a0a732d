package world

import "context"

// Services asks HTTP services other than the Kubernetes API. Namespaced policies get none (S11 in docs/security/threat-model.md).
type Services interface {
	// Call sends the request and returns the decoded JSON answer. A status that is not 2xx is an error.
	Call(ctx context.Context, r ServiceRequest) (any, error)
}

// ServiceRequest is one request to a service.
type ServiceRequest struct {
	Method string // GET or POST
	URL    string
	// VariableHost: the host is not written in the policy but came from a variable, so that it may be a requester's choice.
	VariableHost bool
	Headers      []Header
	CABundle     string // PEM; empty for the certificates of the system
	Body         any    // JSON value, of a POST
}

// Header is a header of a request.
type Header struct{ Name, Value string }

// ServicesFunc adapts a function to Services.
type ServicesFunc func(context.Context, ServiceRequest) (any, error)

// Call calls f.
func (f ServicesFunc) Call(ctx context.Context, r ServiceRequest) (any, error) { return f(ctx, r) }

// Globals reads the data of GlobalContextEntries. Namespaced policies get none (S5 in docs/security/threat-model.md).
type Globals interface {
	// Global returns the data of an entry; the name may be entry.projection. An entry that is missing, or that could not
	// be loaded, is an error.
	Global(ctx context.Context, name string) (any, error)
}

// GlobalsFunc adapts a function to Globals.
type GlobalsFunc func(ctx context.Context, name string) (any, error)

// Global calls f.
func (f GlobalsFunc) Global(ctx context.Context, name string) (any, error) { return f(ctx, name) }

// Lists reads all objects of a kind.
type Lists interface {
	// List returns the objects that the query asks for.
	List(ctx context.Context, q Query) ([]map[string]any, error)
}

// Query says which objects of a kind a list has.
type Query struct {
	APIVersion, Kind string
	Namespace        string // empty: everywhere
	Selector         string // a label selector in its text form; empty: all
	// Name is the name that the objects have; empty for any. A right to list may be limited to names.
	Name string
}

// KindFinder is what Lists may offer besides: the kinds that wildcards stand for.
type KindFinder interface {
	// Find returns the kinds whose apiVersion and kind the wildcards match; one that exists in several versions is there
	// once.
	Find(ctx context.Context, apiVersion, kind string) ([]Kind, error)
}

// Kind names a kind.
type Kind struct{ APIVersion, Kind string }
