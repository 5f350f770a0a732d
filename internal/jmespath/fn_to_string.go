package jmespath

import (
	"bytes"

	"ephor.invalid/ephor/internal/value"
)

func init() {
	register(Function{
		Name: "to_string", Args: one(Any), Returns: []Type{String}, Builtin: true,
		Doc: "Returns a string unchanged, and any other value as JSON.",
		Examples: []Example{
			{Expression: "to_string('a')", Result: `"a"`},
			{Expression: "to_string(`[1, 2.5]`)", Result: `"[1,2.5]"`},
			{Expression: "to_string(missing)", Input: `{}`, Result: `"null"`},
		},
		call: func(env *Env, args []any) (any, error) {
			if s, ok := args[0].(string); ok {
				return s, nil
			}
			if err := env.Meter.Text(args[0]); err != nil {
				return nil, err
			}
			length := value.TextLength(args[0], 8<<20)
			if err := env.step(length / 5); err != nil {
				return nil, err
			}
			out := value.AppendJSON(make([]byte, 0, length), floats(args[0]))
			return env.text(string(htmlSafe(out)))
		},
	})
}

// htmlSafe escapes the three characters that encoding/json escapes by default, since Kyverno does: policies compare texts.
func htmlSafe(b []byte) []byte {
	if !bytes.ContainsAny(b, "<>&") {
		return b
	}
	b = bytes.ReplaceAll(b, []byte("<"), []byte(`\u003c`))
	b = bytes.ReplaceAll(b, []byte(">"), []byte(`\u003e`))
	return bytes.ReplaceAll(b, []byte("&"), []byte(`\u0026`))
}
