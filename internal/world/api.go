package world

import (
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/value"
)

// Methods of requests.
const (
	GET  = "GET"
	POST = "POST"
)

// API calls the Kubernetes API by path and returns the decoded answer. A status that is not 2xx is an error.
type API = Lookup[APIRequest, any]

// APIRequest is one request to the Kubernetes API.
type APIRequest struct {
	Method string // GET or POST
	Path   apipath.Path
	Body   any // JSON value, of a POST
}

// Within implements Request.
func (r APIRequest) Within(reach Reach) (Request, error) { return r, reach.CheckAPI(r.Method, r.Path) }

// Title implements Request.
func (r APIRequest) Title() string { return r.Method + " " + r.Path.String() }

// Key implements Request. The body is hidden: the body of a TokenReview contains a credential.
func (r APIRequest) Key() Key {
	p := &r.Path
	key := keyOf(r.Method, p.String())
	key.Secrets = p.Group == "" && p.Resource == "secrets" || p.Resource == "tokenreviews" || slices.Contains(p.Subresource, "token")
	if r.Body != nil {
		key.Hidden = []string{value.JSON(r.Body)}
	}
	return key
}

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
