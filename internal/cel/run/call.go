package run

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

// libraryCall is a call of one of our Functions. Unlike the library's own bindings, it has access to the evaluation, and so to
// its World, budget and context.
type libraryCall struct {
	interpreter.InterpretableCall
	function *env.Function
	literal  bool // the first argument is a literal, at least up to the host of a URL
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
	if e := evaluationOf(vars); e == nil || e.variables.declared.Kind == env.Native || e.Ended() {
		return v
	}
	if text, ok := t.Args()[0].Eval(vars).(types.String); ok {
		return values.Errorf("invalid RFC 3339 timestamp %q", string(text))
	}
	return v
}

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
	e := evaluationOf(vars)
	if e == nil {
		return types.NewErr("%s is %v", c.Function(), world.ErrUnavailable)
	}
	e.Literal = c.literal
	return limitValues(c.function.Invoke(&e.Scope, c.Function(), args), vars)
}

// isLiteral reports whether the first argument is a literal, or starts with a literal that contains the scheme and host of a URL and a
// slash.
func isLiteral(args []interpreter.InterpretableV2, f *env.Function) bool {
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
