package jmespath

import (
	"crypto/md5" //nolint:gosec // the language has it; what it is used for is up to the policy
	"encoding/hex"
)

func init() {
	register(Function{
		Name: "md5", Args: one(String), Returns: []Type{String},
		Doc:      "Returns the MD5 digest of a string, in hexadecimal digits.",
		Examples: []Example{{Expression: "md5('')", Result: `"d41d8cd98f00b204e9800998ecf8427e"`}},
		call: func(_ *Env, args []any) (any, error) {
			sum := md5.Sum([]byte(args[0].(string))) //nolint:gosec // see above
			return hex.EncodeToString(sum[:]), nil
		},
	})
}
