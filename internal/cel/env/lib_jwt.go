package env

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"ephor.invalid/ephor/internal/cel/jwt"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

var (
	keySetType = cel.OpaqueType("jwks.KeySet")
	tokenShape = values.MessageOf("jwt.Token", map[string]*values.Shape{"Claims": values.ObjectShape, "Valid": values.BoolShape})
)

// maxToken is the maximum size of tokens that are decoded, in bytes.
const maxToken = 64 << 10

// exampleToken has the claim role=admin, and is signed with the text secret.
const exampleToken = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJyb2xlIjoiYWRtaW4ifQ.m0CF2My0uwEjcJXQzHibukFCbYzPHv-dvwuU2BUTwkc"

// libJWT queries world.HTTP for key sets, and uses the clock to check whether a token has expired.
var libJWT = &Library{
	Name: "jwt",
	Doc: "JSON Web Tokens, in policies with evaluation.mode HTTP or Envoy. Claims holds the claims of the token, even if it is invalid. Valid is true if the signature matches the key and " +
		"that the token is neither expired nor from the future; a string that is not a token, or a token without a signature, is invalid.",
	Kinds: checks,
	Asks:  true,
	Functions: []Function{
		{
			Names: []string{"jwt.Decode"},
			Overloads: []Overload{
				{Args: []*cel.Type{cel.StringType, cel.StringType}, Result: tokenShape.Type()},
				{Args: []*cel.Type{cel.StringType, keySetType}, Result: tokenShape.Type()},
			},
			Doc: "Decodes a token and verifies it: with a shared secret (HS256, HS384, HS512), with a public key or certificate in PEM, or with a key set (RS, PS and ES with " +
				"SHA-256, SHA-384 or SHA-512, and EdDSA).",
			Example: "jwt.Decode('" + exampleToken + "', 'secret').Claims", Result: `{"role":"admin"}`,
			cost: func(args []ref.Val) int { return price.NodeSteps*1000 + price.Steps(len(values.Text(args[0])), 4) },
			call: func(e *Scope, args []ref.Val) ref.Val {
				token := values.Text(args[0])
				if len(token) > maxToken {
					return values.Errorf("jwt.Decode: the token has %d bytes; %d are allowed", len(token), maxToken)
				}
				keys, ok := args[1].(keySet)
				if !ok {
					key, err := jwt.Text(values.Text(args[1]))
					if err != nil {
						return values.Errorf("jwt.Decode: %v", err)
					}
					keys.list = []jwt.Key{key}
				}
				clock := e.world().Clock
				if clock == nil {
					return e.unknown(fmt.Errorf("jwt.Decode: the time is %w", world.ErrUnavailable))
				}
				claims, err := jwt.Verify(token, keys.list, clock.Now())
				if claims == nil {
					claims = map[string]any{}
				}
				made, _ := tokenShape.Read(map[string]any{"Claims": claims, "Valid": err == nil}, "token") // cannot fail: the value has this shape
				return made
			},
		},
		{
			Names: []string{"jwks.Fetch"}, Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: keySetType}},
			Doc:     "Fetches a JSON Web Key Set (RFC 7517) from a URL. It ignores keys of other types and keys that are not for verifying signatures.",
			Example: "jwt.Decode('" + exampleToken + "', jwks.Fetch('https://service.example/jwks')).Valid", Result: "false",
			cost: queryCost,
			call: func(e *Scope, args []ref.Val) ref.Val {
				answer := e.exchange(world.GET, "", args)
				if types.IsUnknownOrError(answer) {
					return answer
				}
				v, err := values.Decode(answer, values.MaxNesting)
				if err != nil {
					return types.WrapErr(err)
				}
				keys, err := keysOf(v)
				if err != nil {
					return values.Errorf("jwks.Fetch: %v", err)
				}
				return keys
			},
		},
	},
	types: func() []*apiservercel.DeclType { return []*apiservercel.DeclType{tokenShape.Declared()} },
}

// keysOf parses the response of a key server.
func keysOf(answer any) (keySet, error) {
	m, _ := answer.(map[string]any)
	if code, _ := m["statusCode"].(int64); code != 200 {
		return keySet{}, fmt.Errorf("the server answers with status %v", m["statusCode"])
	}
	list, ok := m["keys"].([]any)
	if !ok {
		return keySet{}, errors.New("the answer has no list of keys")
	}
	keys, err := jwt.KeySet(list)
	return keySet{keys}, err
}
