package jmespath

import "encoding/base64"

func init() {
	register(Function{
		Name: "base64_decode", Args: one(String), Returns: []Type{String},
		Doc: "Decodes a string from standard base64.",
		Examples: []Example{
			{Expression: "base64_decode('aGVsbG8=')", Result: `"hello"`},
			{Expression: "base64_decode('!!')", Error: `illegal base64 data at input byte 0`},
		},
		call: func(env *Env, args []any) (any, error) {
			out, err := base64.StdEncoding.DecodeString(args[0].(string))
			if err != nil {
				return nil, err
			}
			return env.text(string(out))
		},
	})
}
