package jmespath

import (
	"math"
	"strconv"
	"strings"
	"time"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"

	"ephor.invalid/ephor/internal/value"
)

// operand is a JSON number, or a string that holds a quantity or, failing that, a duration. Since 30m and 5m are quantities
// (milli), a duration of whole minutes must be written in another way: 1h30m, 90s.
type operand struct {
	kind     operandKind
	scalar   float64
	quantity resource.Quantity
	duration time.Duration
}

type operandKind int

const (
	scalar operandKind = iota
	quantity
	duration
)

type operator int

const (
	add operator = iota
	subtract
	multiply
	divide
	modulo
)

// arithmetic applies an operator for the function with that name.
func arithmetic(env *Env, name string, op operator, x, y any) (any, error) {
	for _, v := range []any{x, y} {
		if _, ok := v.(string); ok {
			if err := env.step(operandSteps); err != nil {
				return nil, err
			}
		}
	}
	a, ok := readOperand(x)
	b, ok2 := readOperand(y)
	if !ok || !ok2 {
		return nil, functionError(name, "invalid operand")
	}
	switch {
	case a.kind == b.kind && (op == add || op == subtract):
		return sumOf(name, op, a, b)
	case op == multiply && a.kind == scalar:
		return product(name, b, a.scalar)
	case op == multiply && b.kind == scalar:
		return product(name, a, b.scalar)
	case op == divide && (a.kind == b.kind || b.kind == scalar):
		return quotient(name, a, b)
	case op == modulo && a.kind == b.kind:
		return remainder(name, a, b)
	}
	return nil, functionError(name, "Types mismatch")
}

// maxOperand bounds the length of an operand, and maxExponent its decimal exponent, because the quantity parser accepts
// numbers of any length.
const (
	maxOperand  = 64
	maxExponent = 100
)

// operandSteps is the cost of reading a quantity or a duration and of calculating with it.
const operandSteps = 350

func readOperand(v any) (operand, bool) {
	if f, ok := value.Float(v); ok {
		return operand{kind: scalar, scalar: f}, true
	}
	s, ok := v.(string)
	if !ok || len(s) > maxOperand {
		return operand{}, false
	}
	if q, ok := readQuantity(s); ok {
		return operand{kind: quantity, quantity: q}, true
	}
	d, err := time.ParseDuration(s)
	return operand{kind: duration, duration: d}, err == nil
}

func readQuantity(s string) (resource.Quantity, bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(s[i+1:])
		if s[i+1:] != "" && s[i+1:] != "i" && (err != nil || exponent > maxExponent || exponent < -maxExponent) {
			return resource.Quantity{}, false
		}
	}
	q, err := resource.ParseQuantity(s)
	return q, err == nil
}

func sumOf(name string, op operator, a, b operand) (any, error) {
	switch a.kind {
	case scalar:
		if op == subtract {
			return a.scalar - b.scalar, nil
		}
		return a.scalar + b.scalar, nil
	case quantity:
		if op == subtract {
			a.quantity.Sub(b.quantity)
		} else {
			a.quantity.Add(b.quantity)
		}
		return a.quantity.String(), nil
	}
	sum := a.duration + b.duration
	if op == subtract {
		sum = a.duration - b.duration
	}
	if overflowed := (float64(a.duration)+float64(b.duration))*float64(sum) < 0; overflowed && op == add {
		return nil, functionError(name, "the duration is out of range")
	}
	return sum.String(), nil
}

func product(name string, a operand, factor float64) (any, error) {
	switch a.kind {
	case scalar:
		return a.scalar * factor, nil
	case quantity:
		f, ok := decimal(factor)
		if !ok {
			return nil, functionError(name, "invalid operand")
		}
		return formatQuantity(new(inf.Dec).Mul(a.quantity.AsDec(), f), a.quantity.Format), nil
	}
	return formatDuration(name, float64(a.duration)*factor)
}

func quotient(name string, a, b operand) (any, error) {
	zero := b.kind == scalar && b.scalar == 0 || b.kind == quantity && b.quantity.IsZero() || b.kind == duration && b.duration == 0
	switch {
	case zero:
		return nil, functionError(name, "Zero divisor passed")
	case a.kind == scalar:
		return a.scalar / b.scalar, nil
	case a.kind == quantity && b.kind == quantity:
		return a.quantity.AsApproximateFloat64() / b.quantity.AsApproximateFloat64(), nil
	case a.kind == duration && b.kind == duration:
		return a.duration.Seconds() / b.duration.Seconds(), nil
	case a.kind == duration:
		return formatDuration(name, float64(a.duration)/b.scalar)
	}
	divisor, ok := decimal(b.scalar)
	if !ok {
		return nil, functionError(name, "invalid operand")
	}
	// The quotient uses the finer unit of the two and is rounded down to it: 1Gi by 4 is 256Mi, 3 by 6 is 0.
	dividend := a.quantity.AsDec()
	scale := max(dividend.Scale(), divisor.Scale(), 0)
	return formatQuantity(new(inf.Dec).QuoRound(dividend, divisor, scale, inf.RoundDown), a.quantity.Format), nil
}

func remainder(name string, a, b operand) (any, error) {
	nonInteger := functionError(name, "Non-integer argument(s) passed for modulo")
	zero := functionError(name, "Zero divisor passed")
	switch a.kind {
	case scalar:
		if !isInt64(a.scalar) || !isInt64(b.scalar) {
			return nil, nonInteger
		}
		if b.scalar == 0 {
			return nil, zero
		}
		return float64(int64(a.scalar) % int64(b.scalar)), nil
	case quantity:
		x, ok := a.quantity.AsInt64()
		y, ok2 := b.quantity.AsInt64()
		if !ok || !ok2 {
			return nil, nonInteger
		}
		if y == 0 {
			return nil, zero
		}
		return resource.NewQuantity(x%y, a.quantity.Format).String(), nil
	}
	if b.duration == 0 {
		return nil, zero
	}
	return (a.duration % b.duration).String(), nil
}

// isInt64 reports whether f is a whole number in the range of int64.
func isInt64(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < 1<<63 }

// decimal returns the exact decimal of a number as it is written.
func decimal(f float64) (*inf.Dec, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) || f != 0 && (math.Abs(f) > 1e100 || math.Abs(f) < 1e-100) {
		return nil, false
	}
	return new(inf.Dec).SetString(strconv.FormatFloat(f, 'f', -1, 64))
}

func formatQuantity(d *inf.Dec, format resource.Format) string {
	return resource.NewDecimalQuantity(*d, format).String()
}

func formatDuration(name string, f float64) (any, error) {
	if math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return nil, functionError(name, "the duration is out of range")
	}
	return time.Duration(f).String(), nil
}
