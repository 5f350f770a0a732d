package run

import (
	"runtime"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// membership looks for a value in a list of constants, as `x in ['a', 'b']` does. The library makes a Go map of such a list, and a value of ours
// that is itself a list or an object cannot be looked up in a Go map. It equals none of the constants, which are numbers, texts and booleans.
type membership struct{ interpreter.InterpretableV2 }

// Exec implements the library's interface.
func (m membership) Exec(frame *interpreter.ExecutionFrame) (out ref.Val) {
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(runtime.Error); !ok || !strings.Contains(err.Error(), "hash of unhashable type") {
				panic(v)
			}
			out = types.False
		}
	}()
	return m.InterpretableV2.Exec(frame)
}
