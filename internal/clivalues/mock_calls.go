package clivalues

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Calls are the answers that a Test defines for calls, by method and address.
type Calls struct {
	services, paths map[string]v1alpha1.MockResponse
}

// NewCalls checks and stores the answers. Two answers for the same method and address, an address that is neither a URL nor a
// path, and an answer without body are errors.
func NewCalls(list []v1alpha1.APICallResponse) (*Calls, error) {
	c := &Calls{services: map[string]v1alpha1.MockResponse{}, paths: map[string]v1alpha1.MockResponse{}}
	for i, r := range list {
		if err := c.add(r); err != nil {
			return nil, fmt.Errorf("apiCallResponses[%d]: %w", i, err)
		}
	}
	return c, nil
}

func (c *Calls) add(r v1alpha1.APICallResponse) error {
	method := r.Method
	switch method {
	case "":
		method = world.GET
	case world.GET, world.POST:
	default:
		return fmt.Errorf("invalid method %q, must be GET or POST", method)
	}
	if (r.URL == "") == (r.URLPath == "") {
		return fmt.Errorf("exactly one of url and urlPath must be set")
	}
	if r.Response.Body == nil {
		return fmt.Errorf("response.body is required")
	}
	to, key := c.services, method+" "+r.URL
	if r.URLPath != "" {
		p, err := apipath.Parse(r.URLPath)
		if err != nil {
			return err
		}
		to, key = c.paths, method+" "+p.String()
	} else if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("url %q must be an absolute http or https URL", r.URL)
	}
	if _, again := to[key]; again {
		return fmt.Errorf("duplicate response for %s", key)
	}
	to[key] = r.Response
	return nil
}

// Services answers calls of services.
func (c *Calls) Services() world.Services {
	return func(_ context.Context, r world.ServiceRequest) (any, error) {
		response, ok := c.services[r.Method+" "+r.URL]
		if !ok {
			return nil, fmt.Errorf("apiCallResponses has no answer to %s %s: %w", r.Method, r.URL, world.ErrUnavailable)
		}
		return answer(response)
	}
}

// HTTP answers requests of CEL policies with statusCode and body, whatever the status. It passes requests without a defined answer
// to next, which may be nil.
func (c *Calls) HTTP(next world.HTTP) world.HTTP {
	return func(ctx context.Context, r world.ServiceRequest) (map[string]any, error) {
		response, ok := c.services[r.Method+" "+r.URL]
		switch {
		case ok:
			return map[string]any{"statusCode": float64(cmp.Or(response.StatusCode, http.StatusOK)), "body": response.Body}, nil
		case next == nil:
			return nil, fmt.Errorf("apiCallResponses has no answer to %s %s: %w", r.Method, r.URL, world.ErrUnavailable)
		}
		return next(ctx, r)
	}
}

// API answers requests of the Kubernetes API. It passes requests without a defined answer to next, which may be nil.
func (c *Calls) API(next world.API) world.API {
	if len(c.paths) == 0 {
		return next
	}
	return func(ctx context.Context, r world.APIRequest) (any, error) {
		if response, ok := c.paths[r.Method+" "+r.Path.String()]; ok {
			return answer(response)
		}
		if next == nil {
			return nil, fmt.Errorf("apiCallResponses has no answer to %s %s: %w", r.Method, r.Path.String(), world.ErrUnavailable)
		}
		return next(ctx, r)
	}
}

func answer(r v1alpha1.MockResponse) (any, error) {
	code := r.StatusCode
	if code == 0 {
		code = http.StatusOK
	}
	if code < 200 || code > 299 {
		return nil, fmt.Errorf("HTTP %d: %s", code, value.JSON(r.Body))
	}
	return r.Body, nil
}
