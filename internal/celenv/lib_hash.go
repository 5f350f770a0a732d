package celenv

import (
	"crypto/md5"  //nolint:gosec // the policy chooses the hash
	"crypto/sha1" //nolint:gosec // the policy chooses the hash
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var libHash = &Library{
	Name:  "hash",
	Doc:   "Checksums of strings, in lower-case hexadecimal digits.",
	Kinds: everyPolicy,
	Functions: []Function{
		digest("md5", "0cc175b9c0f1b6a831c399e269772661", func(b []byte) []byte { s := md5.Sum(b); return s[:] }),           //nolint:gosec // as above
		digest("sha1", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", func(b []byte) []byte { s := sha1.Sum(b); return s[:] }), //nolint:gosec // as above
		digest("sha256", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }),
	},
}

func digest(name, ofA string, sum func([]byte) []byte) Function {
	return Function{
		Names:     []string{"hash." + name, name},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.StringType}},
		Doc:       "Returns the " + name + " checksum of a string.",
		Example:   "hash." + name + "('a')",
		Result:    `"` + ofA + `"`,
		call: func(_ *Scope, args []ref.Val) ref.Val {
			return types.String(hex.EncodeToString(sum([]byte(text(args[0])))))
		},
	}
}
