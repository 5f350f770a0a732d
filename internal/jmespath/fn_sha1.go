package jmespath

import (
	"crypto/sha1" //nolint:gosec // the language has it; what it is used for is up to the policy
	"encoding/hex"
)

func init() {
	register(Function{
		Name: "sha1", Args: one(String), Returns: []Type{String},
		Doc:      "Returns the SHA-1 digest of a string, in hexadecimal digits.",
		Examples: []Example{{Expression: "sha1('')", Result: `"da39a3ee5e6b4b0d3255bfef95601890afd80709"`}},
		call: func(_ *Env, args []any) (any, error) {
			sum := sha1.Sum([]byte(args[0].(string))) //nolint:gosec // see above
			return hex.EncodeToString(sum[:]), nil
		},
	})
}
