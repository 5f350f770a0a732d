package env

import (
	"bytes"
	"compress/gzip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

var libGzip = &Library{
	Name:  "gzip",
	Doc:   "Compression and decompression of strings. The same string always gives the same bytes.",
	Kinds: everyPolicy,
	Functions: []Function{
		{
			Names:     []string{"gzip.compress"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.BytesType}},
			Doc:       "Compresses a string, without a time stamp.",
			Example:   `base64.encode(gzip.compress('a')).startsWith('H4sI')`,
			Result:    `true`,
			// The compressor alone needs 800 kB of memory.
			cost: func(args []ref.Val) int { return price.NodeSteps * (2000 + len(values.Text(args[0]))) },
			call: func(_ *Scope, args []ref.Val) ref.Val {
				var out bytes.Buffer
				w := gzip.NewWriter(&out)
				if _, err := w.Write([]byte(values.Text(args[0]))); err != nil {
					return types.WrapErr(err)
				}
				if err := w.Close(); err != nil {
					return types.WrapErr(err)
				}
				return types.Bytes(out.Bytes())
			},
		},
		{
			Names:     []string{"gzip.decompress"},
			Overloads: []Overload{{Args: []*cel.Type{cel.BytesType}, Result: cel.StringType}},
			Doc:       "Decompresses bytes to a string.",
			Example:   `gzip.decompress(gzip.compress('a'))`,
			Result:    `"a"`,
			cost: func(args []ref.Val) int {
				b, _ := args[0].(types.Bytes)
				return price.NodeSteps * (1000 + len(b))
			},
			call: func(e *Scope, args []ref.Val) ref.Val {
				b, _ := args[0].(types.Bytes)
				r, err := gzip.NewReader(bytes.NewReader(b))
				if err != nil {
					return types.WrapErr(err)
				}
				out, err := bounded.Read(r, price.MaxText)
				if bounded.Exceeded(err) {
					return e.unknown(price.ErrTooLarge)
				}
				if err != nil {
					return types.WrapErr(err)
				}
				e.Charge(price.Steps(len(out), price.ReadBytes))
				return types.String(out)
			},
		},
	},
}
