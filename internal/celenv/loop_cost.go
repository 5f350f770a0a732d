package celenv

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// textInterrupted is the error of a loop that was interrupted. The evaluation reports why.
const textInterrupted = "operation interrupted"

// charging returns a decorator that charges each iteration of a loop. parts are those of each loop's step (see steps).
func charging(parts map[int64]int) interpreter.InterpretableDecorator {
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		if n, ok := parts[i.ID()]; ok {
			return &loopStep{i, n}, nil
		}
		return i, nil
	}
}

// loopStep evaluates the step of a loop and charges for it.
type loopStep struct {
	interpreter.Interpretable
	parts int
}

// Exec implements the library's interface.
func (t *loopStep) Exec(frame *interpreter.ExecutionFrame) ref.Val { return t.Eval(frame) }

// Eval implements the library's interface.
func (t *loopStep) Eval(vars interpreter.Activation) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return t.Interpretable.Eval(vars)
	}
	if e.ended() {
		return types.NewErr(textInterrupted) // the library's loop goes on to its end, without work
	}
	e.spend(int64(t.parts))
	e.take(t.parts)
	v := t.Interpretable.Eval(vars)
	if e.interrupted() {
		return types.NewErr(textInterrupted)
	}
	return v
}
