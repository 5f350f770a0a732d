package jmespath

import (
	"math"
	"strconv"

	"ephor.invalid/ephor/internal/value"
)

func init() {
	register(Function{
		Name: "to_number", Args: one(Any), Returns: []Type{Number}, Builtin: true,
		Doc: "Converts a string to a number; returns a number unchanged, and null for any other value.",
		Examples: []Example{
			{Expression: "to_number('1.5')", Result: `1.5`},
			{Expression: "to_number('12a')", Result: `null`},
		},
		call: func(_ *Env, args []any) (any, error) {
			if f, ok := value.Float(args[0]); ok {
				return f, nil
			}
			s, _ := args[0].(string)
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, nil // JSON cannot represent it
			}
			return f, nil
		},
	})
}
