package jmespath

import "encoding/base64"

func init() {
	register(Function{
		Name: "base64_encode", Args: one(String), Returns: []Type{String},
		Doc:      "Encodes a string in standard base64, with padding.",
		Examples: []Example{{Expression: "base64_encode('hello')", Result: `"aGVsbG8="`}},
		call: func(env *Env, args []any) (any, error) {
			return env.text(base64.StdEncoding.EncodeToString([]byte(args[0].(string))))
		},
	})
}
