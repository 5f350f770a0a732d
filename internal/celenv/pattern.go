package celenv

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// The library compiles constant regular expressions when it plans an expression, into a call that evaluates its own arguments. Our
// nodes have already evaluated the arguments, so this call gets arguments that return these values.

var patterns = map[string]*interpreter.RegexOptimization{
	"matches": interpreter.MatchesRegexOptimization, "find": library.FindRegexOptimization, "findAll": library.FindAllRegexOptimization,
}

// constantPattern returns a function that plans a call whose regular expression is a constant.
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
			return nil // the call itself returns the error
		}
		return out
	}, true
}

// givenArguments is a call that takes its arguments from argumentsOf.
type givenArguments struct{ interpreter.InterpretableCall }

// Args implements the library's interface.
func (g givenArguments) Args() []interpreter.Interpretable {
	out := make([]interpreter.Interpretable, len(g.InterpretableCall.Args()))
	for i := range out {
		out[i] = argument(i)
	}
	return out
}

// argument is an argument, identified by its index.
type argument int

// ID implements the library's interface.
func (argument) ID() int64 { return 0 }

// Eval implements the library's interface.
func (a argument) Eval(vars interpreter.Activation) ref.Val { return vars.(argumentsOf).args[a] }

// argumentsOf passes the values of arguments to a call.
type argumentsOf struct{ args []ref.Val }

// ResolveName implements the library's interface.
func (argumentsOf) ResolveName(string) (any, bool) { return nil, false }

// Parent implements the library's interface.
func (argumentsOf) Parent() interpreter.Activation { return nil }
