package env

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

// httpRequest is the type of object in expressions for HTTPChecks.
var httpRequest = values.MessageOf("http.CheckRequest", map[string]*values.Shape{"attributes": httpAttributes})

var httpAttributes = values.MessageOf("http.Attributes", map[string]*values.Shape{
	"method": values.TextShape, "header": values.MapOf(values.ListOf(values.TextShape)), "host": values.TextShape, "protocol": values.TextShape, "contentLength": values.IntShape, "body": values.TextShape,
	"scheme": values.TextShape, "path": values.TextShape, "query": values.MapOf(values.ListOf(values.TextShape)), "fragment": values.TextShape,
})

// envoyRequest is the type of object in expressions for EnvoyChecks: Envoy's CheckRequest, version 3 of its API for external authorization.
var envoyRequest = values.MessageOf("envoy.service.auth.v3.CheckRequest", map[string]*values.Shape{
	"attributes": values.MessageOf("envoy.service.auth.v3.AttributeContext", map[string]*values.Shape{
		"source": envoyPeer, "destination": envoyPeer,
		"request": values.MessageOf("envoy.service.auth.v3.AttributeContext.Request", map[string]*values.Shape{
			"time": values.TimeShape, "http": values.MessageOf("envoy.service.auth.v3.AttributeContext.HttpRequest", map[string]*values.Shape{
				"id": values.TextShape, "method": values.TextShape, "headers": values.MapOf(values.TextShape), "header_map": envoyHeaders, "path": values.TextShape, "host": values.TextShape, "scheme": values.TextShape, "query": values.TextShape,
				"fragment": values.TextShape, "size": values.IntShape, "protocol": values.TextShape, "body": values.TextShape, "raw_body": values.BytesShape,
			}),
		}),
		"context_extensions": values.MapOf(values.TextShape), "metadata_context": envoyMetadata, "route_metadata_context": envoyMetadata,
		"tls_session": values.MessageOf("envoy.service.auth.v3.AttributeContext.TLSSession", map[string]*values.Shape{"sni": values.TextShape}),
	}),
})

var (
	envoyPeer = values.MessageOf("envoy.service.auth.v3.AttributeContext.Peer", map[string]*values.Shape{
		"address": envoyAddress, "service": values.TextShape, "labels": values.MapOf(values.TextShape), "principal": values.TextShape, "certificate": values.TextShape,
	})
	envoyAddress = values.MessageOf("envoy.config.core.v3.Address", map[string]*values.Shape{
		"socket_address": values.MessageOf("envoy.config.core.v3.SocketAddress", map[string]*values.Shape{
			"protocol": values.EnumOf(map[string]int64{"TCP": 0, "UDP": 1}), "address": values.TextShape, "port_value": values.UintShape, "named_port": values.TextShape,
			"resolver_name": values.TextShape, "ipv4_compat": values.BoolShape, "network_namespace_filepath": values.TextShape,
		}),
		"pipe": values.MessageOf("envoy.config.core.v3.Pipe", map[string]*values.Shape{"path": values.TextShape, "mode": values.UintShape}),
		"envoy_internal_address": values.MessageOf("envoy.config.core.v3.EnvoyInternalAddress", map[string]*values.Shape{
			"server_listener_name": values.TextShape, "endpoint_id": values.TextShape,
		}),
	})
	envoyMetadata = values.MessageOf("envoy.config.core.v3.Metadata", map[string]*values.Shape{"filter_metadata": values.MapOf(values.ObjectShape)})
	envoyHeaders  = values.MessageOf("envoy.config.core.v3.HeaderMap", map[string]*values.Shape{
		"headers": values.ListOf(values.MessageOf("envoy.config.core.v3.HeaderValue", map[string]*values.Shape{"key": values.TextShape, "value": values.TextShape, "raw_value": values.BytesShape})),
	})
)

// requestOf returns the type of the check requests for expressions of the kind; nil for other kinds.
func requestOf(k Kind) *values.Shape {
	switch k {
	case HTTPChecks:
		return httpRequest
	case EnvoyChecks:
		return envoyRequest
	}
	return nil
}

// CheckRequest converts a decoded check request to the value of object in expressions of the kind. The error names an unknown
// field, or a field with the wrong type.
func CheckRequest(k Kind, request map[string]any) (any, error) {
	s := requestOf(k)
	if s == nil {
		return nil, fmt.Errorf("cel/env: the kind %d is not for check requests", k)
	}
	return s.Read(request, "request")
}

// Response is the answer to a check request.
type Response struct {
	Allowed bool
	// Reason is the reason why an HTTP request is denied. Status is the HTTP status for a denied request to Envoy.
	Reason string
	Status int64
}

// The types of answers and of their parts. An answer may be null, which these types allow.
var (
	HTTPResponse  = cel.ObjectType("http.CheckResponse")
	httpAllowed   = cel.ObjectType("http.AllowedResponse")
	httpDenied    = cel.ObjectType("http.DeniedResponse")
	EnvoyResponse = cel.ObjectType("envoy.service.auth.v3.CheckResponse")
	envoyAllowed  = cel.ObjectType("envoy.service.auth.v3.OkHttpResponse")
	envoyDenied   = cel.ObjectType("envoy.service.auth.v3.DeniedHttpResponse")
	envoyHeader   = cel.ObjectType("envoy.config.core.v3.HeaderValueOption")
)

// reply is an answer or a part of one.
type reply struct {
	kind *cel.Type
	Response
	more map[string]any // the other fields, as JSON
}

// ResponseOf returns the answer in the value of an expression. ok is false for null.
func ResponseOf(v ref.Val) (response Response, ok bool) {
	r, ok := v.(*reply)
	if !ok {
		return Response{}, false
	}
	return r.Response, true
}

// with returns a copy of the reply in which change has converted the value of a field.
func (r *reply) with(field string, change func(any) any) *reply {
	out := *r
	if out.more = maps.Clone(r.more); out.more == nil {
		out.more = map[string]any{}
	}
	out.more[field] = change(out.more[field])
	return &out
}

// appended returns a copy of the reply with an element appended to the list in a field.
func (r *reply) appended(field string, v any) *reply {
	return r.with(field, func(old any) any {
		list, _ := old.([]any)
		return append(slices.Clip(list), v)
	})
}

// costOfReply is the cost of a function that returns a changed copy of its first argument.
func costOfReply(args []ref.Val) int {
	n := 10*price.NodeSteps + costOfText(args)
	if r, ok := args[0].(*reply); ok {
		for _, v := range r.more {
			list, _ := v.([]any)
			n += price.Steps(len(list), price.CopiedValues)
		}
	}
	return n
}

// Document returns the reply as JSON.
func (r *reply) Document() any {
	out := maps.Clone(r.more)
	if out == nil {
		out = map[string]any{}
	}
	switch r.kind {
	case envoyHeader:
		return out
	case HTTPResponse, EnvoyResponse:
		out["allowed"] = r.Allowed
	}
	if r.Reason != "" {
		out["reason"] = r.Reason
	}
	if r.Status != 0 {
		out["status"] = r.Status
	}
	return out
}

// ConvertToNative implements the library's interface.
func (r *reply) ConvertToNative(t reflect.Type) (any, error) {
	return values.Opaque{Kind: r.kind}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (r *reply) ConvertToType(t ref.Type) ref.Val { return values.Opaque{Kind: r.kind}.Convert(r, t) }

// Equal implements the library's interface.
func (r *reply) Equal(other ref.Val) ref.Val {
	o, ok := other.(*reply)
	return types.Bool(ok && o.kind == r.kind && o.Response == r.Response && reflect.DeepEqual(o.more, r.more))
}

// Type implements the library's interface.
func (r *reply) Type() ref.Type { return r.kind }

// Value implements the library's interface.
func (r *reply) Value() any { return r.Document() }
