package jmespath

import (
	"fmt"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// The types in arithmetic: S a number, Q a quantity, D a duration. 30m is a quantity, 1h30m a duration.
func TestArithmetic(t *testing.T) {
	const (
		mismatch = "Types mismatch"
		invalid  = "invalid operand"
		zero     = "Zero divisor passed"
		whole    = "Non-integer argument(s) passed for modulo"
	)
	for _, c := range []struct{ function, x, y, want string }{
		{"add", "`1`", "`2.5`", `3.5`}, {"add", "'1Gi'", "'1Gi'", `"2Gi"`}, {"add", "'1h'", "'90s'", `"1h1m30s"`}, {"add", "'1'", "'2'", `"3"`}, {"add", "'1.5'", "'100Mi'", `"104857601500m"`},
		{"add", "'1h'", "'30m'", mismatch}, {"add", "`1`", "'1'", mismatch}, {"add", "`1`", "'1h'", mismatch}, {"add", "'x'", "`1`", invalid}, {"add", "`true`", "`1`", invalid}, {"add", "missing", "`1`", invalid}, {"add", "`[1]`", "'1'", invalid},
		{"subtract", "'100Mi'", "'500m'", `"104857599500m"`}, {"subtract", "'1Mi'", "'2Mi'", `"-1Mi"`}, {"subtract", "'90s'", "'1h'", `"-58m30s"`}, {"subtract", "'1h'", "`1`", mismatch},
		{"multiply", "`2`", "`2.5`", `5`}, {"multiply", "'30m'", "`2.5`", `"75m"`}, {"multiply", "`2`", "'1h'", `"2h0m0s"`}, {"multiply", "'1h'", "`0.5`", `"30m0s"`}, {"multiply", "'1Gi'", "'2'", mismatch}, {"multiply", "'1h'", "'1h'", mismatch}, {"multiply", "'1h'", "'2'", mismatch},
		{"multiply", "'1h'", "`1e300`", "the duration is out of range"}, {"multiply", "'1'", "`1e300`", invalid},
		{"divide", "`1`", "`4`", `0.25`}, {"divide", "'1Gi'", "'512Mi'", `2`}, {"divide", "'1Gi'", "`4`", `"256Mi"`}, {"divide", "'3'", "`6`", `"0"`}, {"divide", "'500m'", "`4`", `"125m"`}, {"divide", "'1Gi'", "`2.5`", `"429496729600m"`},
		{"divide", "'1h'", "'90s'", `40`}, {"divide", "'90s'", "`-2`", `"-45s"`}, {"divide", "`1`", "'1'", mismatch}, {"divide", "`1`", "'1h'", mismatch}, {"divide", "'1Gi'", "'1h'", mismatch},
		{"divide", "`1`", "`0`", zero}, {"divide", "'1'", "'0'", zero}, {"divide", "'1h'", "'0s'", zero}, {"divide", "'1h'", "`0`", zero}, {"divide", "'1Gi'", "`0`", zero},
		{"modulo", "`-7`", "`3`", `-1`}, {"modulo", "'1Gi'", "'100Mi'", `"24Mi"`}, {"modulo", "'1h'", "'50m0s'", `"10m0s"`}, {"modulo", "`7.5`", "`2`", whole}, {"modulo", "'1500m'", "'1'", whole}, {"modulo", "`7`", "`0`", zero}, {"modulo", "'7'", "'0'", zero},
		{"modulo", "'7h'", "'0s'", zero}, {"modulo", "'1h'", "`2`", mismatch}, {"modulo", "`1e300`", "`7`", whole},
	} {
		expression := fmt.Sprintf("%s(%s, %s)", c.function, c.x, c.y)
		got, err := MustCompile(expression).Search(nil, map[string]any{})
		text := value.JSON(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want && text != fmt.Sprintf("JMESPath function '%s': %s", c.function, c.want) {
			t.Errorf("%s is %s, want %s", expression, text, c.want)
		}
	}
}
