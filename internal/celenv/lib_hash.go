package celenv

import (
	"crypto/md5"  //nolint:gosec // the policy asks for it
	"crypto/sha1" //nolint:gosec // the policy asks for it
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var libHash = &Library{
	Name:  "hash",
	Doc:   "Checksums of texts, in lower-case hexadecimal digits.",
	Kinds: everyPolicy,
	Functions: []Function{
		digest("md5", func(b []byte) []byte { s := md5.Sum(b); return s[:] }),   //nolint:gosec // as above
		digest("sha1", func(b []byte) []byte { s := sha1.Sum(b); return s[:] }), //nolint:gosec // as above
		digest("sha256", func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }),
	},
}

func digest(name string, sum func([]byte) []byte) Function {
	return Function{
		Names:     []string{"hash." + name, name},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.StringType}},
		Doc:       "The " + name + " checksum of a text.",
		Example:   "hash." + name + "('a')",
		call: func(_ *Evaluation, args []ref.Val) ref.Val {
			return types.String(hex.EncodeToString(sum([]byte(text(args[0])))))
		},
	}
}
