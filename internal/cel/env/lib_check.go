package env

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/value"
)

var textsType = cel.ListType(cel.StringType)

// libCheck contains the functions for check requests of both modes.
var libCheck = &Library{
	Name:  "check",
	Doc:   "Responses to check requests, in policies with evaluation.mode HTTP or Envoy. A validation returns a response, or null to pass the request to the next validation.",
	Kinds: checks,
	Functions: []Function{
		{
			Names: []string{"Response"}, Member: true, cost: costOfReply,
			Overloads: []Overload{
				{Args: []*cel.Type{httpAllowed}, Result: HTTPResponse}, {Args: []*cel.Type{httpDenied}, Result: HTTPResponse},
				{Args: []*cel.Type{envoyAllowed}, Result: EnvoyResponse}, {Args: []*cel.Type{envoyDenied}, Result: EnvoyResponse},
			},
			Doc: "Builds the response.", Example: "http.Allowed().Response()", Result: `{"allowed":true}`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				out := *args[0].(*reply)
				if out.kind = EnvoyResponse; args[0].Type() == httpAllowed || args[0].Type() == httpDenied {
					out.kind = HTTPResponse
				}
				return &out
			},
		},
		{
			Names:     []string{"json.Unmarshal"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}},
			Doc:       "Parses JSON. Numbers become doubles.", Example: `json.Unmarshal('{"a": [1, 2]}').a`, Result: `[1,2]`,
			cost: unmarshalCost, call: unmarshal("json.Unmarshal"),
		},
	},
}

// libCheckHTTP contains the functions for HTTP requests.
var libCheckHTTP = &Library{
	Name:  "httpCheck",
	Doc:   "The parts of HTTP requests, and responses to them, in policies with evaluation.mode HTTP. object.attributes has the fields method, header, host, protocol, contentLength, body, scheme, path, query and fragment.",
	Kinds: kindsOf(HTTPChecks),
	Functions: []Function{
		{
			Names: []string{"http.Allowed"}, Overloads: []Overload{{Result: httpAllowed}},
			Doc: "Allows the request.", Example: "http.Allowed().Response()", Result: `{"allowed":true}`,
			call: func(*Scope, []ref.Val) ref.Val {
				return &reply{kind: httpAllowed, Response: Response{Allowed: true}}
			},
		},
		{
			Names: []string{"http.Denied"}, Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: httpDenied}},
			Doc: "Denies the request, with a reason.", Example: "http.Denied('no').Response()", Result: `{"allowed":false,"reason":"no"}`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				return &reply{kind: httpDenied, Response: Response{Reason: values.Text(args[0])}}
			},
		},
		partOfHTTP("Header", "header", "Returns the values of a header. The case of its name does not matter.", `["text/plain"]`, strings.EqualFold),
		partOfHTTP("QueryParam", "query", "Returns the values of a query parameter.", `[]`, func(a, b string) bool { return a == b }),
	},
}

func partOfHTTP(name, field, doc, result string, same func(a, b string) bool) Function {
	return Function{
		Names: []string{name}, Member: true, Overloads: []Overload{{Args: []*cel.Type{httpAttributes.Type(), cel.StringType}, Result: textsType}},
		Doc: doc, Example: "object.attributes." + name + "('accept')", Result: result,
		cost: func(args []ref.Val) int {
			return price.NodeSteps * (1 + int(args[0].(*values.Message).Get(types.String(field)).(traits.Sizer).Size().(types.Int)))
		},
		call: func(_ *Scope, args []ref.Val) ref.Val {
			all := args[0].(*values.Message).Get(types.String(field)).(traits.Mapper)
			var names []string
			for it := all.Iterator(); it.HasNext() == types.True; {
				if key := values.Text(it.Next()); same(key, values.Text(args[1])) {
					names = append(names, key)
				}
			}
			slices.Sort(names)
			var out []ref.Val
			for _, n := range names {
				for it := all.Get(types.String(n)).(traits.Lister).Iterator(); it.HasNext() == types.True; {
					out = append(out, it.Next())
				}
			}
			return types.NewRefValList(types.DefaultTypeAdapter, out)
		},
	}
}

// libCheckEnvoy contains the functions for check requests of Envoy.
var libCheckEnvoy = &Library{
	Name:  "envoy",
	Doc:   "Responses to Envoy's check requests, in policies with evaluation.mode Envoy. object is Envoy's CheckRequest (API version 3).",
	Kinds: kindsOf(EnvoyChecks),
	Functions: []Function{
		{
			Names: []string{"envoy.Allowed"}, Overloads: []Overload{{Result: envoyAllowed}},
			Doc: "Allows the request.", Example: "envoy.Allowed().Response()", Result: `{"allowed":true}`,
			call: func(*Scope, []ref.Val) ref.Val {
				return &reply{kind: envoyAllowed, Response: Response{Allowed: true}}
			},
		},
		{
			Names: []string{"envoy.Denied"}, Overloads: []Overload{{Args: []*cel.Type{cel.IntType}, Result: envoyDenied}},
			Doc: "Denies the request with an HTTP status.", Example: "envoy.Denied(403).Response()", Result: `{"allowed":false,"status":403}`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				code := int64(args[0].(types.Int))
				if code < 200 || code > 599 {
					return values.Errorf("envoy.Denied: %d is not an HTTP status", code)
				}
				return &reply{kind: envoyDenied, Response: Response{Status: code}}
			},
		},
		{
			Names: []string{"envoy.Header"}, Overloads: []Overload{{Args: []*cel.Type{cel.StringType, cel.StringType}, Result: envoyHeader}},
			Doc: "A header, for WithHeader and WithResponseHeader.", Example: "envoy.Header('x', 'y')", Result: `{"key":"x","value":"y"}`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				return &reply{kind: envoyHeader, more: map[string]any{"key": values.Text(args[0]), "value": values.Text(args[1])}}
			},
		},
		{
			Names: []string{"KeepEmptyValue"}, Member: true, cost: costOfReply, Overloads: []Overload{{Args: []*cel.Type{envoyHeader}, Result: envoyHeader}},
			Doc: "Sends the header even if its value is empty.", Example: "envoy.Header('x', '').KeepEmptyValue()", Result: `{"keepEmptyValue":true,"key":"x","value":""}`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				return args[0].(*reply).with("keepEmptyValue", func(any) any { return true })
			},
		},
		withHeader("WithHeader", "headers", "Adds a header to the allowed request, or to the response to a denied request.", envoyAllowed, envoyDenied),
		withHeader("WithResponseHeader", "responseHeadersToAdd", "Adds a header to the response to an allowed request.", envoyAllowed),
		adding("WithoutHeader", "headersToRemove", "Removes a header from the allowed request."),
		adding("WithoutQueryParam", "queryParametersToRemove", "Removes a query parameter from the allowed request."),
		{
			Names: []string{"WithQueryParam"}, Member: true, cost: costOfReply, Overloads: []Overload{{Args: []*cel.Type{envoyAllowed, cel.StringType, cel.StringType}, Result: envoyAllowed}},
			Doc: "Sets a query parameter of the allowed request.", Example: "envoy.Allowed().WithQueryParam('x', 'y').Response()",
			Result: `{"allowed":true,"queryParametersToSet":[{"key":"x","value":"y"}]}`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				return args[0].(*reply).appended("queryParametersToSet", map[string]any{"key": values.Text(args[1]), "value": values.Text(args[2])})
			},
		},
		{
			Names: []string{"WithBody"}, Member: true, cost: costOfReply, Overloads: []Overload{{Args: []*cel.Type{envoyDenied, cel.StringType}, Result: envoyDenied}},
			Doc: "Sets the body of the response to a denied request.", Example: "envoy.Denied(401).WithBody('who?').Response()",
			Result: `{"allowed":false,"body":"who?","status":401}`, call: setting("body"),
		},
		{
			Names: []string{"WithMessage"}, Member: true, cost: costOfReply, Overloads: []Overload{{Args: []*cel.Type{EnvoyResponse, cel.StringType}, Result: EnvoyResponse}},
			Doc: "Sets the status message of the response.", Example: "envoy.Denied(401).Response().WithMessage('no')",
			Result: `{"allowed":false,"message":"no","status":401}`, call: setting("message"),
		},
		{
			Names: []string{"WithMetadata"}, Member: true, Overloads: []Overload{{Args: []*cel.Type{EnvoyResponse, cel.MapType(cel.StringType, cel.DynType)}, Result: EnvoyResponse}},
			Doc: "Sets the dynamic metadata for subsequent Envoy filters.", Example: "envoy.Allowed().Response().WithMetadata({'x': 1})",
			Result: `{"allowed":true,"dynamicMetadata":{"x":1}}`, cost: func(args []ref.Val) int { return costOfReply(args) + costOfValue(args[1:]) },
			call: func(_ *Scope, args []ref.Val) ref.Val {
				v, err := values.Decode(args[1], values.MaxNesting)
				if err != nil {
					return types.WrapErr(err)
				}
				return args[0].(*reply).with("dynamicMetadata", func(any) any { return v })
			},
		},
	},
}

// setting returns a function that sets a field to its second argument, a text.
func setting(field string) func(*Scope, []ref.Val) ref.Val {
	return func(_ *Scope, args []ref.Val) ref.Val {
		return args[0].(*reply).with(field, func(any) any { return values.Text(args[1]) })
	}
}

// adding returns a Function that adds a text to a list in an allowed response.
func adding(name, field, doc string) Function {
	return Function{
		Names: []string{name}, Member: true, cost: costOfReply, Overloads: []Overload{{Args: []*cel.Type{envoyAllowed, cel.StringType}, Result: envoyAllowed}},
		Doc: doc, Example: "envoy.Allowed()." + name + "('x').Response()", Result: `{"allowed":true,"` + field + `":["x"]}`,
		call: func(_ *Scope, args []ref.Val) ref.Val { return args[0].(*reply).appended(field, values.Text(args[1])) },
	}
}

// withHeader returns a Function that adds a header to a list. The header is a name and a value, or the result of envoy.Header.
func withHeader(name, field, doc string, to ...*cel.Type) Function {
	f := Function{
		Names: []string{name}, Member: true, cost: costOfReply, Doc: doc, Example: "envoy.Allowed()." + name + "('x', 'y').Response()",
		Result: `{"allowed":true,"` + field + `":[{"key":"x","value":"y"}]}`,
		call: func(_ *Scope, args []ref.Val) ref.Val {
			if h, ok := args[1].(*reply); ok {
				return args[0].(*reply).appended(field, h.Document())
			}
			return args[0].(*reply).appended(field, map[string]any{"key": values.Text(args[1]), "value": values.Text(args[2])})
		},
	}
	for _, t := range to {
		f.Overloads = append(f.Overloads, Overload{Args: []*cel.Type{t, cel.StringType, cel.StringType}, Result: t}, Overload{Args: []*cel.Type{t, envoyHeader}, Result: t})
	}
	return f
}

func unmarshalCost(args []ref.Val) int {
	return price.NodeSteps + price.Steps(len(values.Text(args[0])), 4)
}

// unmarshal returns a function that parses a JSON text.
func unmarshal(name string) func(*Scope, []ref.Val) ref.Val {
	return func(e *Scope, args []ref.Val) ref.Val {
		s := values.Text(args[0])
		if len(s) > maxDocument {
			return values.Errorf("%s: the text has %d bytes; %d are allowed", name, len(s), maxDocument)
		}
		v, err := value.DecodeJSONFloat([]byte(s))
		if err != nil {
			return types.WrapErr(err)
		}
		return e.native(v)
	}
}
