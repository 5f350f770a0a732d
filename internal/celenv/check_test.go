package celenv

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// A check request with an unknown field, or a field of the wrong type, is an error that names the field.
func TestCheckRequestMistakes(t *testing.T) {
	for _, c := range []struct {
		kind           Kind
		request, error string
	}{
		{HTTPChecks, `{"attribute": {}}`, `request: unknown field "attribute"; there are attributes`},
		{HTTPChecks, `{"attributes": {"method": 1}}`, `request.attributes.method: a text is required`},
		{HTTPChecks, `{"attributes": []}`, `request.attributes: an object is required`},
		{HTTPChecks, `{"attributes": {"header": {"a": "b"}}}`, `request.attributes.header.a: a list is required`},
		{HTTPChecks, `{"attributes": {"header": {"a": ["b", 1]}}}`, `request.attributes.header.a[1]: a text is required`},
		{HTTPChecks, `{"attributes": {"contentLength": 1.5}}`, `request.attributes.contentLength: a whole number is required`},
		{EnvoyChecks, `{"attributes": {"source": {"address": {"socket_address": {"port_value": -1}}}}}`, `request.attributes.source.address.socket_address.port_value: a whole number is required`},
		{EnvoyChecks, `{"attributes": {"source": {"address": {"socket_address": {"port_value": 1, "portValue": 2}}}}}`, `the field port_value is set twice`},
		{EnvoyChecks, `{"attributes": {"source": {"address": {"socket_address": {"protocol": "SCTP"}}}}}`, `protocol: unknown value "SCTP"`},
		{EnvoyChecks, `{"attributes": {"request": {"time": "now"}}}`, `request.attributes.request.time: parsing time "now"`},
		{EnvoyChecks, `{"attributes": {"request": {"http": {"raw_body": "?"}}}}`, `raw_body: illegal base64`},
		{HTTPChecks, `{"attributes": {"host": null}}`, ""},
		{EnvoyChecks, `{}`, ""},
	} {
		v, err := value.DecodeJSONFloat([]byte(c.request))
		if err != nil {
			t.Fatal(err)
		}
		_, err = CheckRequest(c.kind, v.(map[string]any))
		if (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: %v, want %q", c.request, err, c.error)
		}
	}
	if _, err := CheckRequest(Validating, nil); err == nil {
		t.Error("a ValidatingPolicy for objects has no check requests")
	}
}

// The answer of an expression has the type for its mode, or is null.
func TestResponseTypes(t *testing.T) {
	const words = "rule response output is expected to be of type "
	for _, c := range []struct {
		kind              Kind
		result            Result
		expression, error string
	}{
		{HTTPChecks, HTTPResponse, "http.Allowed().Response()", ""},
		{HTTPChecks, HTTPResponse, "object.attributes.method == 'GET' ? http.Denied('no').Response() : null", ""},
		{HTTPChecks, HTTPResponse, "null", ""},
		{HTTPChecks, HTTPResponse, "http.Allowed()", words + "http.CheckResponse"},
		{HTTPChecks, HTTPResponse, "true", words + "http.CheckResponse"},
		{EnvoyChecks, EnvoyResponse, "envoy.Denied(403).Response().WithMessage('no')", ""},
		{EnvoyChecks, EnvoyResponse, "dyn(1)", words + "envoy.service.auth.v3.CheckResponse"},
	} {
		_, err := NewCompiler(Declarations{Kind: c.kind}).Compile(c.expression, c.result, Null)
		got := ""
		if err != nil {
			got = Summary(err)
		}
		if got != c.error {
			t.Errorf("%s: %q, want %q", c.expression, got, c.error)
		}
	}
}
