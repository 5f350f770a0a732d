package compiler

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/value"
)

// A check request with an unknown field, or a field of the wrong type, is an error that names the field.
func TestCheckRequestMistakes(t *testing.T) {
	for _, c := range []struct {
		kind           env.Kind
		request, error string
	}{
		{env.HTTPChecks, `{"attribute": {}}`, `request: unknown field "attribute"; there are attributes`},
		{env.HTTPChecks, `{"attributes": {"method": 1}}`, `request.attributes.method: a text is required`},
		{env.HTTPChecks, `{"attributes": []}`, `request.attributes: an object is required`},
		{env.HTTPChecks, `{"attributes": {"header": {"a": "b"}}}`, `request.attributes.header.a: a list is required`},
		{env.HTTPChecks, `{"attributes": {"header": {"a": ["b", 1]}}}`, `request.attributes.header.a[1]: a text is required`},
		{env.HTTPChecks, `{"attributes": {"contentLength": 1.5}}`, `request.attributes.contentLength: a whole number is required`},
		{env.EnvoyChecks, `{"attributes": {"source": {"address": {"socket_address": {"port_value": -1}}}}}`, `request.attributes.source.address.socket_address.port_value: a whole number is required`},
		{env.EnvoyChecks, `{"attributes": {"source": {"address": {"socket_address": {"port_value": 1, "portValue": 2}}}}}`, `the field port_value is set twice`},
		{env.EnvoyChecks, `{"attributes": {"source": {"address": {"socket_address": {"protocol": "SCTP"}}}}}`, `protocol: unknown value "SCTP"`},
		{env.EnvoyChecks, `{"attributes": {"request": {"time": "now"}}}`, `request.attributes.request.time: parsing time "now"`},
		{env.EnvoyChecks, `{"attributes": {"request": {"http": {"raw_body": "?"}}}}`, `raw_body: illegal base64`},
		{env.HTTPChecks, `{"attributes": {"host": null}}`, ""},
		{env.EnvoyChecks, `{}`, ""},
	} {
		v, err := value.DecodeJSONFloat([]byte(c.request))
		if err != nil {
			t.Fatal(err)
		}
		_, err = env.CheckRequest(c.kind, v.(map[string]any))
		if (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: %v, want %q", c.request, err, c.error)
		}
	}
	if _, err := env.CheckRequest(env.Validating, nil); err == nil {
		t.Error("a ValidatingPolicy for objects has no check requests")
	}
}

// The answer of an expression has the type for its mode, or is null.
func TestResponseTypes(t *testing.T) {
	const words = "rule response output is expected to be of type "
	for _, c := range []struct {
		kind              env.Kind
		result            typecheck.Result
		expression, error string
	}{
		{env.HTTPChecks, typecheck.HTTPResponse, "http.Allowed().Response()", ""},
		{env.HTTPChecks, typecheck.HTTPResponse, "object.attributes.method == 'GET' ? http.Denied('no').Response() : null", ""},
		{env.HTTPChecks, typecheck.HTTPResponse, "null", ""},
		{env.HTTPChecks, typecheck.HTTPResponse, "http.Allowed()", words + "http.CheckResponse"},
		{env.HTTPChecks, typecheck.HTTPResponse, "true", words + "http.CheckResponse"},
		{env.EnvoyChecks, typecheck.EnvoyResponse, "envoy.Denied(403).Response().WithMessage('no')", ""},
		{env.EnvoyChecks, typecheck.EnvoyResponse, "dyn(1)", words + "envoy.service.auth.v3.CheckResponse"},
	} {
		_, err := New(env.Declarations{Kind: c.kind}).Compile(c.expression, c.result, typecheck.Null)
		got := ""
		if err != nil {
			got = typecheck.Summary(err)
		}
		if got != c.error {
			t.Errorf("%s: %q, want %q", c.expression, got, c.error)
		}
	}
}
