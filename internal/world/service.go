package world

import (
	"context"
	"strings"
)

// Services asks HTTP services other than the Kubernetes API. Namespaced policies get none (S11 in docs/threat-model.md).
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

// Globals reads the data of GlobalContextEntries. Namespaced policies get none (S5 in docs/threat-model.md).
type Globals interface {
	// Global returns the data of an entry; the name may be entry.projection. An entry that is missing, or that could not
	// be loaded, is an error.
	Global(ctx context.Context, name string) (any, error)
}

// GlobalsFunc adapts a function to Globals.
type GlobalsFunc func(ctx context.Context, name string) (any, error)

// Global calls f.
func (f GlobalsFunc) Global(ctx context.Context, name string) (any, error) { return f(ctx, name) }

// Images reads what registries say about images.
type Images interface {
	// Image returns image, resolvedImage, registry, repository, identifier, manifestList, manifest and configData of the
	// image, as JSON values.
	Image(ctx context.Context, r ImageRequest) (map[string]any, error)
}

// ImagesFunc adapts a function to Images.
type ImagesFunc func(context.Context, ImageRequest) (map[string]any, error)

// Image calls f.
func (f ImagesFunc) Image(ctx context.Context, r ImageRequest) (map[string]any, error) {
	return f(ctx, r)
}

// ConfineImages cuts Images to a Reach; nil stays nil. A Reach of one namespace allows the pull secrets in it only, and takes
// those that name no namespace for its own; its requests are marked as confined. Every implementation of Root gives its Images through it.
func ConfineImages(r Reach, next Images) Images {
	if next == nil || r.cluster {
		return next
	}
	return ImagesFunc(func(ctx context.Context, req ImageRequest) (map[string]any, error) {
		secrets := make([]string, len(req.Secrets))
		for i, text := range req.Secrets {
			namespace, name, named := strings.Cut(strings.TrimLeft(text, "/"), "/")
			if !named {
				namespace, name = r.namespace, namespace
			}
			if !r.Allows(namespace) {
				return nil, &PathError{Path: "the pull secret " + text, Namespace: r.namespace}
			}
			secrets[i] = namespace + "/" + name
		}
		req.Secrets, req.Confined = secrets, true
		return next.Image(ctx, req)
	})
}

// ImageRequest names an image and how to log in to its registry.
type ImageRequest struct {
	Reference string
	Insecure  bool     // registries without TLS, or with a certificate that is not trusted
	Providers []string // default, google, azure, amazon, github
	Secrets   []string // pull secrets, in the engine's namespace unless written namespace/name
	// Confined: a namespaced policy asks. ConfineImages sets it.
	Confined bool
}

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
