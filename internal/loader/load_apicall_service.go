package loader

import (
	"fmt"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/world"
)

// service is a compiled apiCall.service.
type service struct {
	url          *template.Template
	variableHost bool
	headers      []header
	caBundle     string
}

type header struct {
	name  string
	value *template.Template
}

// errServiceNamespaced is the error for a service call in a namespaced policy: it would leave the namespace with the rights of the process
// (S11 in docs/security/threat-model.md).
const errServiceNamespaced = "context entry %s: service calls are not allowed in namespaced policies"

func compileService(c *compiled, s *kyvernov1.ServiceCall, in input, entry string) *service {
	at := in.path + ".service"
	if in.policyNamespace != "" {
		c.diags.Errorf(at, errServiceNamespaced, entry)
		c.diags.Hint("write a ClusterPolicy, or read what the Kubernetes API knows with urlPath")
	}
	if s.URL == "" {
		c.diags.Errorf(at+".url", "missing service for APICall %s", entry)
		c.diags.Hint("add service.url, such as https://checks.tools.svc/allowed")
	}
	x := &service{url: c.text(s.URL, at+".url"), variableHost: variableHost(s.URL), caBundle: s.CABundle}
	for i, h := range s.Headers {
		if h.Key == "" || strings.Contains(h.Key, "{{") {
			c.diags.Errorf(at+".headers["+strconv.Itoa(i)+"].key", "a header needs a name without variables")
			c.diags.Hint("write a fixed name in key; the value may have variables")
			continue
		}
		x.headers = append(x.headers, header{h.Key, c.text(h.Value, at+".headers["+strconv.Itoa(i)+"].value")})
	}
	return x
}

// variableHost reports whether the scheme, host or port of the URL depends on variables.
func variableHost(url string) bool {
	literal, _, variables := strings.Cut(url, "{{")
	if !variables {
		return false
	}
	_, rest, ok := strings.Cut(literal, "://")
	return !ok || !strings.ContainsAny(rest, "/?")
}

func (x *service) fetch(before *scope.Scope, entry, method string, body any) (any, error) {
	url, err := substitute(entry, x.url, before)
	if err != nil {
		return nil, err
	}
	r := world.ServiceRequest{Method: method, URL: url, VariableHost: x.variableHost, CABundle: x.caBundle, Body: body}
	for _, h := range x.headers {
		v, err := substitute(entry, h.value, before)
		if err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, world.Header{Name: h.name, Value: v})
	}
	services := before.Env.World.Services
	if services == nil {
		return nil, fmt.Errorf("failed to fetch data for APICall: %s %s: services are %w", method, url, world.ErrUnavailable)
	}
	data, err := services(before.Env.Meter.Context(), r)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch data for APICall: %w", err)
	}
	return data, nil
}
