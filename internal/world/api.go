package world

import (
	"context"
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/apipath"
)

// Methods of requests.
const (
	GET  = "GET"
	POST = "POST"
)

// API calls the Kubernetes API by path.
type API interface {
	// Call sends the request and returns the decoded answer. A status that is not 2xx is an error.
	Call(ctx context.Context, r APIRequest) (any, error)
}

// APIRequest is one request to the Kubernetes API.
type APIRequest struct {
	Method string // GET or POST
	Path   apipath.Path
	Body   any // JSON value, of a POST
}

// OfSecrets reports whether the answer is data of Secrets, or a token.
func (r *APIRequest) OfSecrets() bool {
	p := &r.Path
	return p.Group == "" && p.Resource == "secrets" || p.Resource == "tokenreviews" || slices.Contains(p.Subresource, "token")
}

// APIFunc adapts a function to API.
type APIFunc func(context.Context, APIRequest) (any, error)

// Call calls f.
func (f APIFunc) Call(ctx context.Context, r APIRequest) (any, error) { return f(ctx, r) }

// PathError is the error for a path beyond a policy's reach.
type PathError struct{ Path, Namespace string }

func (e *PathError) Error() string {
	if e.Namespace == "" {
		return fmt.Sprintf("permission denied: %s is out of reach", e.Path)
	}
	return fmt.Sprintf("permission denied: %s is out of reach, a policy of the namespace %s may only read below that namespace", e.Path, e.Namespace)
}

// throughSubresources are subresources through which a request leaves the API: their responses are not Kubernetes data.
var throughSubresources = []string{"proxy", "exec", "attach", "portforward"}

// CheckAPI returns a *PathError for a request beyond the reach. A Reach of one namespace allows reading objects in the namespace, and
// checking a user's rights there; every other POST would write with the rights of the process.
func (r Reach) CheckAPI(method string, p apipath.Path) error {
	if r.cluster {
		return nil
	}
	refusal := &PathError{Path: p.String(), Namespace: r.namespace}
	if !r.Allows(p.InNamespace()) {
		return refusal
	}
	if len(p.Subresource) > 0 && slices.Contains(throughSubresources, p.Subresource[0]) {
		return refusal
	}
	if method == GET || method == POST && p.Group == "authorization.k8s.io" && p.Resource == "localsubjectaccessreviews" {
		return nil
	}
	return refusal
}

// Confine limits an API to a Reach; nil stays nil. Every implementation of Root must pass its API through it.
func Confine(r Reach, next API) API {
	if next == nil {
		return nil
	}
	return APIFunc(func(ctx context.Context, req APIRequest) (any, error) {
		if err := r.CheckAPI(req.Method, req.Path); err != nil {
			return nil, err
		}
		return next.Call(ctx, req)
	})
}
