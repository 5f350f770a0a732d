package celenv

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// The library compiles constant regular expressions when an expression is planned, in a call that evaluates its own arguments. Ours
// have their values already, so that call gets arguments that give these values back.

var patterns = map[string]*interpreter.RegexOptimization{
	"matches": interpreter.MatchesRegexOptimization, "find": library.FindRegexOptimization, "findAll": library.FindAllRegexOptimization,
}

// constantPattern makes the call of a function whose regular expression is a constant.
func constantPattern(n interpreter.InterpretableCall) (func(interpreter.InterpretableCall) interpreter.Interpretable, bool) {
	known := patterns[n.Function()]
	if known == nil || known.RegexIndex >= len(n.Args()) {
		return nil, false
	}
	constant, ok := n.Args()[known.RegexIndex].(interpreter.InterpretableConst)
	if !ok {
		return nil, false
	}
	text, ok := constant.Value().(types.String)
	if !ok {
		return nil, false
	}
	return func(n interpreter.InterpretableCall) interpreter.Interpretable {
		out, err := known.Factory(givenArguments{n}, string(text))
		if err != nil {
			return nil // the call itself gives the error
		}
		return out
	}, true
}

// givenArguments is a call whose arguments are taken from argumentsOf.
type givenArguments struct{ interpreter.InterpretableCall }

// Args implements the library's interface.
func (g givenArguments) Args() []interpreter.Interpretable {
	out := make([]interpreter.Interpretable, len(g.InterpretableCall.Args()))
	for i := range out {
		out[i] = argument(i)
	}
	return out
}

// argument is an argument by its number.
type argument int

// ID implements the library's interface.
func (argument) ID() int64 { return 0 }

// Eval implements the library's interface.
func (a argument) Eval(vars interpreter.Activation) ref.Val { return vars.(argumentsOf).args[a] }

// argumentsOf hands the values of arguments to a call.
type argumentsOf struct{ args []ref.Val }

// ResolveName implements the library's interface.
func (argumentsOf) ResolveName(string) (any, bool) { return nil, false }

// Parent implements the library's interface.
func (argumentsOf) Parent() interpreter.Activation { return nil }
