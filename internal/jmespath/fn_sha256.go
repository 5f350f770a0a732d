package jmespath

import (
	"crypto/sha256"
	"encoding/hex"
)

func init() {
	register(Function{
		Name: "sha256", Args: one(String), Returns: []Type{String},
		Doc:      "Returns the SHA-256 digest of a string, in hexadecimal digits.",
		Examples: []Example{{Expression: "sha256('')", Result: `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`}},
		call: func(_ *Env, args []any) (any, error) {
			sum := sha256.Sum256([]byte(args[0].(string)))
			return hex.EncodeToString(sum[:]), nil
		},
	})
}
