package celenv

import "fmt"

// Limits for the expressions of one policy as a whole, including those of its generated rules. Compiling takes the
// library half a millisecond for each expression, and up to 60 µs for each byte. Policies that people write have dozens
// of expressions.
const (
	maxExpressions     = 1000
	maxExpressionBytes = 128 << 10
)

// Allowance limits what the Compilers of one policy compile altogether. The zero Allowance is unused. It must be used by
// only one goroutine.
type Allowance struct{ expressions, bytes int }

// AllowanceError means that a policy has too many expressions, or that they are too long.
type AllowanceError struct{ what string }

func (e *AllowanceError) Error() string { return e.what }

// take counts an expression before it is compiled. A nil Allowance counts nothing.
func (a *Allowance) take(expression string) error {
	if a == nil {
		return nil
	}
	a.expressions++
	a.bytes += len(expression)
	switch {
	case a.expressions > maxExpressions:
		return &AllowanceError{fmt.Sprintf("the policy has more than %d CEL expressions, including those of generated rules", maxExpressions)}
	case a.bytes > maxExpressionBytes:
		return &AllowanceError{fmt.Sprintf("the CEL expressions of the policy have more than %d bytes in total, including those of generated rules", maxExpressionBytes)}
	}
	return nil
}
