package observe

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

// conventions are the OTLP names of instruments and labels that follow OpenTelemetry's conventions. The Prometheus page has underscores
// instead of their dots. All other names are the same in both.
var conventions = map[string]string{
	nameServerDuration: "http.server.request.duration", nameServerIn: "http.server.request.body.size", nameServerOut: "http.server.response.body.size",
	"http_request_method": "http.request.method", "http_response_status_code": "http.response.status_code",
	"network_protocol_name": "network.protocol.name", "network_protocol_version": "network.protocol.version",
	"server_address": "server.address", "url_scheme": "url.scheme",
}

// conventionUnits are the units of the instruments that follow a convention.
var conventionUnits = map[string]string{nameServerDuration: "s", nameServerIn: "By", nameServerOut: "By"}

// wireName returns the name of an instrument or a label in OTLP.
func wireName(name string) string {
	if conventional := conventions[name]; conventional != "" {
		return conventional
	}
	return name
}

// wireAttribute returns a label in OTLP.
func wireAttribute(label, value string) attribute.KeyValue {
	if label == "http_response_status_code" {
		if code, err := strconv.Atoi(value); err == nil {
			return attribute.Int(wireName(label), code)
		}
	}
	return attribute.String(wireName(label), value)
}
