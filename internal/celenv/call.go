package celenv

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/world"
)

// libraryCall is a call of one of our Functions. Unlike the library's own bindings, it has access to the evaluation, and so to
// its World, budget and context.
type libraryCall struct {
	interpreter.InterpretableCall
	function *Function
	written  bool // the first argument is a literal, at least up to the host of a URL
}

// functionOf returns the Function that is called, or nil for a function of the CEL library.
func functionOf(c interpreter.InterpretableCall) *Function {
	if c.OverloadID() == "" || strings.HasPrefix(c.OverloadID(), overloadPrefix) {
		return byName[c.Function()]
	}
	return nil
}

// timestamp is a conversion to a timestamp. Its error contains the invalid text.
type timestamp struct{ interpreter.InterpretableCall }

// Exec implements the library's interface.
func (t *timestamp) Exec(frame *interpreter.ExecutionFrame) ref.Val { return t.Eval(frame) }

// Eval implements the library's interface.
func (t *timestamp) Eval(vars interpreter.Activation) ref.Val {
	v := t.InterpretableCall.Eval(vars)
	if !types.IsError(v) {
		return v
	}
	if e := evaluationOf(vars); e == nil || e.variables.declared.Kind == Native || e.interrupted() {
		return v
	}
	if text, ok := t.Args()[0].Eval(vars).(types.String); ok {
		return failed("invalid RFC 3339 timestamp %q", string(text))
	}
	return v
}

// overloadPrefix is the prefix of the names of our Functions' overloads.
const overloadPrefix = "policies_"

// bytesPerPart is the number of bytes that a function processes in the time in which one part of an expression is evaluated.
const bytesPerPart = 64

// Exec implements the library's interface.
func (c *libraryCall) Exec(frame *interpreter.ExecutionFrame) ref.Val { return c.Eval(frame) }

// Eval implements the library's interface.
func (c *libraryCall) Eval(vars interpreter.Activation) ref.Val {
	parts := c.Args()
	args := make([]ref.Val, len(parts))
	for i, p := range parts {
		if args[i] = p.Eval(vars); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	if !c.function.fits(args) {
		return noOverload(c.Function(), args)
	}
	e := evaluationOf(vars)
	if e == nil {
		return types.NewErr("%s is %v", c.Function(), world.ErrUnavailable)
	}
	if f := c.function; f.cost != nil {
		e.take(f.cost(args))
	} else {
		e.take(costOfText(args))
	}
	if e.ended() {
		return types.WrapErr(errOutOfBudget)
	}
	e.written = c.written
	return limitValues(c.function.call(e, args), vars)
}

// isWritten reports whether the first argument is a literal, or starts with a literal that contains the scheme and host of a URL and a
// slash.
func isWritten(args []interpreter.InterpretableV2, f *Function) bool {
	if f.Member && len(args) > 0 {
		args = args[1:] // skips the client
	}
	if len(args) == 0 {
		return false
	}
	var arg interpreter.Interpretable = args[0]
	whole := true
	for {
		switch x := unrecorded(arg).(type) {
		case interpreter.InterpretableConst:
			s, ok := x.Value().(types.String)
			_, rest, _ := strings.Cut(string(s), "://")
			return ok && (whole || strings.Contains(rest, "/"))
		case *call:
			if x.Function() != operators.Add {
				return false
			}
			arg, whole = x.Args()[0], false
		default:
			return false
		}
	}
}

// costOfText returns the cost of a call: one part for the call itself, and one for each 64 bytes of its arguments.
func costOfText(args []ref.Val) int {
	n := 0
	for _, a := range args {
		switch x := a.(type) {
		case types.String:
			n += len(x)
		case types.Bytes:
			n += len(x)
		}
	}
	return 1 + n/bytesPerPart
}

// failed returns the error value of a call, for a mistake in the policy or in the data.
func failed(format string, args ...any) ref.Val { return types.NewErr(format, args...) }

// unknown ends the evaluation, because a function could not find out the answer to its query to the World.
func (e *Evaluation) unknown(err error) ref.Val {
	e.failure = err
	return types.WrapErr(err)
}

// text returns the text in an argument.
func text(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}
