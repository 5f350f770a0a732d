package celenv

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/ephor-dev/ephor/internal/world"
)

// libraryCall is a call of a Function of ours. Unlike the library's own bindings it knows the evaluation, and so the world, the
// budget and the context of it.
type libraryCall struct {
	interpreter.InterpretableCall
	function *Function
	written  bool // the first argument is written in the expression, as far as the host of a URL goes
}

// functionOf is the Function that a call calls; nil for the library's own.
func functionOf(c interpreter.InterpretableCall) *Function {
	if c.OverloadID() == "" || strings.HasPrefix(c.OverloadID(), overloadPrefix) {
		return byName[c.Function()]
	}
	return nil
}

// timestamp is a conversion to a time. Its error says which text is none.
type timestamp struct{ interpreter.InterpretableCall }

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

// overloadPrefix begins the names of the overloads of Functions.
const overloadPrefix = "policies_"

// bytesPerPart is how many bytes of text a function handles while one part of an expression is evaluated.
const bytesPerPart = 64

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
	if e.remaining < 0 {
		return types.WrapErr(errOutOfBudget)
	}
	e.written = c.written
	return limitValues(c.function.call(e, args), vars)
}

// isWritten reports whether the first argument is a literal, or begins with one that holds the scheme and host of a URL and a slash.
func isWritten(args []interpreter.Interpretable, f *Function) bool {
	if f.Member && len(args) > 0 {
		args = args[1:] // behind the client
	}
	if len(args) == 0 {
		return false
	}
	arg, whole := args[0], true
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

// costOfText is a part for the call, and one for each 64 bytes of its arguments.
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

// take charges parts of expressions; beyond the bound the evaluation ends.
func (e *Evaluation) take(parts int) {
	if e.loopParts += parts; e.loopParts > maxLoopParts {
		e.remaining = -1
	}
}

// failed is the value of a call that has none: a mistake of the policy or of the data.
func failed(format string, args ...any) ref.Val { return types.NewErr(format, args...) }

// unknown ends the evaluation: what a function asked the world for could not be found out.
func (e *Evaluation) unknown(err error) ref.Val {
	e.failure = err
	return types.WrapErr(err)
}

// text is an argument that is a text.
func text(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}
