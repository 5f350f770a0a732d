package world

import "context"

// Services calls HTTP services other than the Kubernetes API. It is nil for namespaced policies (S11 in docs/security/threat-model.md).
type Services interface {
	// Call sends the request and returns the decoded JSON answer. A status that is not 2xx is an error.
	Call(ctx context.Context, r ServiceRequest) (any, error)
}

// ServiceRequest is one request to a service.
type ServiceRequest struct {
	Method string // GET or POST
	URL    string
	// VariableHost: the host comes from a variable, so a requester may have chosen it.
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

// Globals reads the data of GlobalContextEntries. It is nil for namespaced policies (S5 in docs/security/threat-model.md).
type Globals interface {
	// Global returns the data of an entry; the name may be entry.projection. A missing entry, or one without data, is an error.
	Global(ctx context.Context, name string) (any, error)
}

// GlobalSecrets is an optional interface of Globals: it reports which data are those of Secrets.
type GlobalSecrets interface {
	// OfSecrets reports whether the entry holds Secrets. A name with a projection stands for its entry.
	OfSecrets(name string) bool
}

// GlobalsFunc adapts a function to Globals.
type GlobalsFunc func(ctx context.Context, name string) (any, error)

// Global calls f.
func (f GlobalsFunc) Global(ctx context.Context, name string) (any, error) { return f(ctx, name) }

// Lists reads all objects of a kind.
type Lists interface {
	// List returns the objects that the query selects.
	List(ctx context.Context, q Query) ([]map[string]any, error)
}

// Query selects objects of a kind.
type Query struct {
	APIVersion, Kind string
	Namespace        string // empty: everywhere
	Selector         string // a label selector in its text form; empty: all
	// Name is the name of the objects; empty for any. A right to list may be limited to names.
	Name string
}

// KindFinder is an optional interface of Lists: it resolves wildcards to kinds.
type KindFinder interface {
	// Find returns the kinds whose apiVersion and kind the wildcards match; one with several versions only once.
	Find(ctx context.Context, apiVersion, kind string) ([]Kind, error)
}

// Kind identifies a kind.
type Kind struct{ APIVersion, Kind string }
