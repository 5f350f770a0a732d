package apicall

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Kubernetes sends requests to the Kubernetes API with the process's identity.
type Kubernetes struct {
	client *http.Client
	base   url.URL
	limits Limits
}

// NewKubernetes returns a client for a cluster.
func NewKubernetes(config *rest.Config, limits Limits) (*Kubernetes, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the Kubernetes API: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the Kubernetes API: %w", err)
	}
	client := *shared
	client.CheckRedirect = refuseRedirects
	client.Timeout = limits.timeout()
	return &Kubernetes{client: &client, base: *base, limits: limits}, nil
}

// Call is world.API.
func (k *Kubernetes) Call(ctx context.Context, r world.APIRequest) (any, error) {
	u := k.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + strings.Join(r.Path.Segments(), "/")
	u.RawPath, u.RawQuery = "", r.Path.Query.Encode()
	req, err := newRequest(ctx, r.Method, u.String(), r.Body)
	if err != nil {
		return nil, err
	}
	answer, err := k.client.Do(req)
	if err != nil {
		return nil, fetch.Bare(err)
	}
	defer answer.Body.Close()
	body, err := k.limits.read(answer)
	if err != nil {
		return nil, err
	}
	if !successful(answer.StatusCode) {
		return nil, statusError(answer.StatusCode, body)
	}
	return decode(body)
}

func newRequest(ctx context.Context, method, address string, body any) (*http.Request, error) {
	var content *bytes.Reader
	if method == http.MethodPost {
		content = bytes.NewReader(value.AppendJSON(nil, body))
	} else {
		content = bytes.NewReader(nil)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// statusError returns the error for a refusal by the API server.
func statusError(code int, body []byte) error {
	message := strings.TrimSpace(string(body))
	if v, err := value.DecodeJSON(body); err == nil {
		if m, ok := v.(map[string]any); ok && m["kind"] == "Status" {
			message, _ = m["message"].(string)
		}
	}
	message = value.Clip(message, 1000)
	if message == "" {
		message = http.StatusText(code)
	}
	if code == http.StatusForbidden || code == http.StatusUnauthorized {
		message = "permission denied: " + message
	}
	return &StatusError{Code: code, Message: message}
}

// StatusError is an answer of the API server with a status other than 2xx.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return e.Message }

// Status makes StatusError work with apierrors.IsNotFound and similar functions.
func (e *StatusError) Status() metav1.Status {
	s := metav1.Status{Status: metav1.StatusFailure, Code: int32(e.Code), Message: e.Message} //nolint:gosec // a status of HTTP
	switch e.Code {
	case http.StatusNotFound:
		s.Reason = metav1.StatusReasonNotFound
	case http.StatusForbidden:
		s.Reason = metav1.StatusReasonForbidden
	}
	return s
}
