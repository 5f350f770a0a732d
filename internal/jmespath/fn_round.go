package jmespath

import (
	"math"
	"strconv"

	"gopkg.in/inf.v0"
)

func init() {
	register(Function{
		Name: "round", Args: one(Number, Number), Returns: []Type{Number},
		Doc: "Rounds a number to a number of decimal places, halves away from zero.",
		Examples: []Example{
			{Expression: "round(`2.555`, `2`)", Result: `2.56`},
			{Expression: "round(`-2.5`, `0`)", Result: `-3`},
			{Expression: "round(`2.5`, `0.5`)", Error: `JMESPath function 'round': Non-integer argument(s) passed for round off`},
			// Kyverno prints these placeholders, and tests of policies quote them.
			{Expression: "round(`2.5`, `-1`)", Error: `JMESPath function 'round': %!d(MISSING) argument is out of bounds (%!d(MISSING))`},
		},
		call: func(env *Env, args []any) (any, error) {
			f, places := number(args[0]), number(args[1])
			switch {
			case places != math.Trunc(places):
				return nil, functionError("round", "Non-integer argument(s) passed for round off")
			case places < 0:
				return nil, functionError("round", "%s", "%!d(MISSING) argument is out of bounds (%!d(MISSING))")
			case places > 400 || math.IsNaN(f) || math.IsInf(f, 0): // no float64 has that many decimal places
				return f, nil
			}
			if err := env.step(50 + 2*int(places)); err != nil {
				return nil, err
			}
			// The number is rounded as it is written: 2.555 is slightly less in binary, but the user wrote 2.555.
			d, ok := new(inf.Dec).SetString(strconv.FormatFloat(f, 'f', -1, 64))
			if !ok {
				return f, nil
			}
			return strconv.ParseFloat(d.Round(d, inf.Scale(places), inf.RoundHalfUp).String(), 64)
		},
	})
}
