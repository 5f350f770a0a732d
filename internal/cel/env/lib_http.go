package env

import (
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

var clientType = cel.OpaqueType("policies.HTTPClient")

// libHTTP queries world.HTTP. Namespaced policies can access it only if the operator allows that.
var libHTTP = &Library{
	Name: LibraryHTTP,
	Doc: "Requests to HTTP services. The result is the JSON object that the service returns, with statusCode added; JSON of another type is in body. " +
		"A status other than 2xx is not an error. Namespaced policies can send requests only with --allowHTTPInNamespacedPolicies.",
	Kinds: everyPolicy | checks,
	Asks:  true,
	Functions: []Function{
		httpFunction([]string{"http.get", "http.Get"}, "http.get('https://service.example/x')", world.GET),
		httpFunction([]string{"http.post", "http.Post"}, "http.post('https://service.example/x', {'a': 1})", world.POST),
		{
			Names:     []string{"http.client", "http.Client"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: clientType}},
			Doc:       "Returns a client that trusts the given PEM certificates instead of those of the system. It has the functions get and post.",
			Example:   "http.client(variables.ca).get('https://service.example/x')",
			Result:    httpResults[world.GET],
			cost:      func(args []ref.Val) int { return price.NodeSteps*50 + price.Steps(len(values.Text(args[0])), 16) },
			call: func(_ *Scope, args []ref.Val) ref.Val {
				if bundle := values.Text(args[0]); x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
					return httpClient{bundle}
				}
				return values.Errorf("failed to parse PEM CA bundle for APICall")
			},
		},
		clientFunction([]string{"get", "Get"}, "http.client(variables.ca).get('https://service.example/x')", world.GET),
		clientFunction([]string{"post", "Post"}, "http.client(variables.ca).post('https://service.example/x', {'a': 1})", world.POST),
	},
}

var httpDocs = map[string]string{
	world.GET:  "Sends a GET request to a URL, with optional headers.",
	world.POST: "Sends data as JSON in a POST request to a URL, with optional headers.",
}

var httpResults = map[string]string{
	world.GET:  `{"headers":0,"method":"GET","sent":null,"statusCode":200}`,
	world.POST: `{"headers":0,"method":"POST","sent":{"a":1},"statusCode":200}`,
}

func httpOverloads(method string, client ...*cel.Type) []Overload {
	args := append(client, cel.StringType)
	if method == world.POST {
		args = append(args, cel.DynType)
	}
	return []Overload{{Args: args, Result: cel.DynType}, {Args: append(args[:len(args):len(args)], labelsType), Result: cel.DynType}}
}

func httpFunction(names []string, example, method string) Function {
	return Function{
		Names: names, Overloads: httpOverloads(method), Doc: httpDocs[method], Example: example, Result: httpResults[method], cost: queryCost,
		call: func(e *Scope, args []ref.Val) ref.Val { return e.exchange(method, "", args) },
	}
}

func clientFunction(names []string, example, method string) Function {
	return Function{
		Names: names, Member: true, Overloads: httpOverloads(method, clientType), Doc: httpDocs[method], Example: example, Result: httpResults[method], cost: queryCost,
		call: func(e *Scope, args []ref.Val) ref.Val {
			return e.exchange(method, args[0].(httpClient).bundle, args[1:])
		},
	}
}

var errNoHTTP = errors.New("http calls are not allowed in namespaced policies: set --allowHTTPInNamespacedPolicies to enable")

func (e *Scope) exchange(method, bundle string, args []ref.Val) ref.Val {
	if e.world().HTTP == nil {
		if e.Namespaced {
			return types.WrapErr(errNoHTTP)
		}
		return e.unanswered("request failed", fmt.Errorf("services are %w", world.ErrUnavailable))
	}
	r := world.ServiceRequest{Method: method, URL: values.Text(args[0]), CABundle: bundle, VariableHost: !e.Literal}
	rest := args[1:]
	if method == world.POST {
		body, err := values.Decode(rest[0], values.MaxNesting)
		if err != nil {
			return types.WrapErr(err)
		}
		r.Body, rest = body, rest[1:]
	}
	if len(rest) > 0 {
		headers := rest[0].(traits.Mapper)
		for it := headers.Iterator(); it.HasNext() == types.True; {
			name := it.Next()
			r.Headers = append(r.Headers, world.Header{Name: values.Text(name), Value: values.Text(headers.Get(name))})
		}
	}
	answer, err := e.world().HTTP(e.Context(), r)
	if err != nil {
		return e.unanswered("request failed", err)
	}
	return e.answer(answer)
}

// httpClient is a client with its own CA certificates.
type httpClient struct{ bundle string }

// ConvertToNative implements the library's interface.
func (c httpClient) ConvertToNative(t reflect.Type) (any, error) {
	return values.Opaque{Kind: clientType}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (c httpClient) ConvertToType(t ref.Type) ref.Val {
	return values.Opaque{Kind: clientType}.Convert(c, t)
}

// Equal implements the library's interface.
func (c httpClient) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(c) == other) }

// Type implements the library's interface.
func (c httpClient) Type() ref.Type { return clientType }

// Value implements the library's interface.
func (c httpClient) Value() any { return c.bundle }
