package world

import (
	"net/url"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Services calls HTTP services other than the Kubernetes API and returns the decoded JSON answer. A status that is not 2xx is an error. It is
// nil for namespaced policies (S11 in docs/security/threat-model.md).
type Services = Lookup[ServiceRequest, any]

// HTTP calls HTTP services for functions of CEL policies. The answer has statusCode, and the members of the body if that is a JSON object,
// otherwise body; a body that is not JSON is null. Any status is an answer; an error means that there was none.
type HTTP = Lookup[ServiceRequest, map[string]any]

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

// Within implements Request.
func (r ServiceRequest) Within(Reach) (Request, error) { return r, nil }

// Title implements Request.
func (r ServiceRequest) Title() string {
	address, _, _ := strings.Cut(r.URL, "?") // queries may contain confidential data
	return r.Method + " " + address
}

// Key implements Request. Only the method, the scheme, the host and the names of headers are visible: paths and queries of webhooks often
// hold a token.
func (r ServiceRequest) Key() Key {
	at, guarded := "", []string{r.URL}
	if u, err := url.Parse(r.URL); err == nil {
		at = u.Scheme + "://" + u.Host
		guarded = []string{u.EscapedPath(), u.Path, u.RawQuery}
		if password, has := u.User.Password(); has {
			guarded = append(guarded, password, u.User.String())
		}
	}
	visible := []string{r.Method, at, strconv.FormatBool(r.VariableHost)}
	hidden := []string{r.URL, r.CABundle, value.JSON(r.Body)}
	for _, h := range r.Headers {
		visible, hidden = append(visible, h.Name), append(hidden, h.Value)
		if !strings.EqualFold(h.Name, "Content-Type") && !strings.EqualFold(h.Name, "Accept") {
			guarded = append(guarded, h.Value)
		}
	}
	return Key{Asked: Canonical(visible...), Hidden: hidden, Guarded: guarded}
}
