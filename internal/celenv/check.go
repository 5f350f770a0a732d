package celenv

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// httpRequest is the type of object in expressions for HTTPChecks.
var httpRequest = messageOf("http.CheckRequest", map[string]*shape{"attributes": httpAttributes})

var httpAttributes = messageOf("http.Attributes", map[string]*shape{
	"method": aText, "header": mapShape(listShape(aText)), "host": aText, "protocol": aText, "contentLength": anInt, "body": aText,
	"scheme": aText, "path": aText, "query": mapShape(listShape(aText)), "fragment": aText,
})

// envoyRequest is the type of object in expressions for EnvoyChecks: Envoy's CheckRequest, version 3 of its API for external authorization.
var envoyRequest = messageOf("envoy.service.auth.v3.CheckRequest", map[string]*shape{
	"attributes": messageOf("envoy.service.auth.v3.AttributeContext", map[string]*shape{
		"source": envoyPeer, "destination": envoyPeer,
		"request": messageOf("envoy.service.auth.v3.AttributeContext.Request", map[string]*shape{
			"time": aTime, "http": messageOf("envoy.service.auth.v3.AttributeContext.HttpRequest", map[string]*shape{
				"id": aText, "method": aText, "headers": mapShape(aText), "header_map": envoyHeaders, "path": aText, "host": aText, "scheme": aText, "query": aText,
				"fragment": aText, "size": anInt, "protocol": aText, "body": aText, "raw_body": aBytes,
			}),
		}),
		"context_extensions": mapShape(aText), "metadata_context": envoyMetadata, "route_metadata_context": envoyMetadata,
		"tls_session": messageOf("envoy.service.auth.v3.AttributeContext.TLSSession", map[string]*shape{"sni": aText}),
	}),
})

var (
	envoyPeer = messageOf("envoy.service.auth.v3.AttributeContext.Peer", map[string]*shape{
		"address": envoyAddress, "service": aText, "labels": mapShape(aText), "principal": aText, "certificate": aText,
	})
	envoyAddress = messageOf("envoy.config.core.v3.Address", map[string]*shape{
		"socket_address": messageOf("envoy.config.core.v3.SocketAddress", map[string]*shape{
			"protocol": enumShape(map[string]int64{"TCP": 0, "UDP": 1}), "address": aText, "port_value": aUint, "named_port": aText,
			"resolver_name": aText, "ipv4_compat": aBool, "network_namespace_filepath": aText,
		}),
		"pipe": messageOf("envoy.config.core.v3.Pipe", map[string]*shape{"path": aText, "mode": aUint}),
		"envoy_internal_address": messageOf("envoy.config.core.v3.EnvoyInternalAddress", map[string]*shape{
			"server_listener_name": aText, "endpoint_id": aText,
		}),
	})
	envoyMetadata = messageOf("envoy.config.core.v3.Metadata", map[string]*shape{"filter_metadata": mapShape(anyMap)})
	envoyHeaders  = messageOf("envoy.config.core.v3.HeaderMap", map[string]*shape{
		"headers": listShape(messageOf("envoy.config.core.v3.HeaderValue", map[string]*shape{"key": aText, "value": aText, "raw_value": aBytes})),
	})
)

// requestOf returns the type of the check requests for expressions of the kind; nil for other kinds.
func requestOf(k Kind) *shape {
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
		return nil, fmt.Errorf("celenv: the kind %d is not for check requests", k)
	}
	return s.read(request, "request")
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
	httpResponse  = cel.ObjectType("http.CheckResponse")
	httpAllowed   = cel.ObjectType("http.AllowedResponse")
	httpDenied    = cel.ObjectType("http.DeniedResponse")
	envoyResponse = cel.ObjectType("envoy.service.auth.v3.CheckResponse")
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
	n := 10 + costOfText(args)
	if r, ok := args[0].(*reply); ok {
		for _, v := range r.more {
			list, _ := v.([]any)
			n += len(list) / listedPerPart
		}
	}
	return n
}

// document returns the reply as JSON.
func (r *reply) document() any {
	out := maps.Clone(r.more)
	if out == nil {
		out = map[string]any{}
	}
	switch r.kind {
	case envoyHeader:
		return out
	case httpResponse, envoyResponse:
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
	return opaque{r.kind}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (r *reply) ConvertToType(t ref.Type) ref.Val { return opaque{r.kind}.convert(r, t) }

// Equal implements the library's interface.
func (r *reply) Equal(other ref.Val) ref.Val {
	o, ok := other.(*reply)
	return types.Bool(ok && o.kind == r.kind && o.Response == r.Response && reflect.DeepEqual(o.more, r.more))
}

// Type implements the library's interface.
func (r *reply) Type() ref.Type { return r.kind }

// Value implements the library's interface.
func (r *reply) Value() any { return r.document() }
