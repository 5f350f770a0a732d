package run

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/price"
)

// textInterrupted is the error of a loop that was interrupted. The evaluation reports why.
const textInterrupted = "operation interrupted"

// charging returns a decorator that charges each iteration of a loop. nodes are those of each loop's step.
func charging(nodes map[int64]int) interpreter.InterpretableDecorator {
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		if n, ok := nodes[i.ID()]; ok {
			return &loopStep{i, n}, nil
		}
		return i, nil
	}
}

// loopStep evaluates the step of a loop and charges for it.
type loopStep struct {
	interpreter.Interpretable
	nodes int
}

// Exec implements the library's interface.
func (t *loopStep) Exec(frame *interpreter.ExecutionFrame) ref.Val { return t.Eval(frame) }

// Eval implements the library's interface.
func (t *loopStep) Eval(vars interpreter.Activation) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return t.Interpretable.Eval(vars)
	}
	if e.Ended() {
		return types.NewErr(textInterrupted) // the library's loop goes on to its end, without work
	}
	e.Spend(int64(t.nodes))
	e.Charge(price.NodeSteps * t.nodes)
	v := t.Interpretable.Eval(vars)
	if e.Ended() {
		return types.NewErr(textInterrupted)
	}
	return v
}
