package celenv

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// What evaluations cost is counted in the units of the API server. The library's accounting observes every node and keeps all values
// on a stack, which takes longer than evaluating. So an expression pays for its parts when it begins, a loop for those of its step at
// each iteration, and calls pay for what depends on the size of their arguments, by the library's formulas.

// perExpression is what one expression may cost.
const perExpression = celconfig.PerCallLimit

// cost says how the price of a call follows from its arguments.
type cost uint8

const (
	costNothing   cost = iota // that of the node
	costText                  // a tenth of the text
	costTexts                 // a tenth of both
	costLesser                // a tenth of the shorter one
	costList                  // the length of the second
	costSearch                // a tenth of each, multiplied
	costPattern               // a tenth of the text, multiplied with a quarter of the pattern
	costByLibrary             // what the library's estimator says
)

var costs = map[string]cost{
	"startsWith": costText, "endsWith": costText, "string": costText, "bytes": costText, "strings.quote": costText, "format": costText,
	operators.In: costList, operators.Add: costTexts, "contains": costSearch, "matches": costPattern,
	operators.Less: costLesser, operators.LessEquals: costLesser, operators.Greater: costLesser, operators.GreaterEquals: costLesser,
}

// fixedCost are the functions that pay no more than a node does.
var fixedCost = map[string]bool{
	"size": true, "int": true, "uint": true, "double": true, "bool": true, "type": true, "dyn": true, "duration": true, "timestamp": true,
	operators.LogicalNot: true, operators.Negate: true, operators.Subtract: true, operators.Multiply: true, operators.Divide: true,
	operators.Modulo: true, "hasValue": true, "value": true, "optional.of": true, "optional.none": true,
}

func (c cost) of(l, r ref.Val) int64 {
	switch c {
	case costText:
		return tenth(l)
	case costTexts:
		if _, ok := l.(types.String); ok {
			return tenth(l) + tenth(r)
		}
	case costLesser:
		return min(tenth(l), tenth(r))
	case costList:
		if l, ok := r.(traits.Lister); ok {
			return int64(size(l))
		}
	case costSearch:
		return tenth(l) * tenth(r)
	case costPattern:
		return tenth(l) * (1 + int64(length(r))/4)
	}
	return 1
}

func tenth(v ref.Val) int64 { return 1 + int64(length(v))/10 }

func length(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case types.Bytes:
		return len(x)
	}
	return 1
}

var estimator = &library.CostEstimator{}

// libraryCost is the price of a call that was made. known is false for a function that the library's estimator does not know; it costs one
// unit, whatever its arguments are.
func libraryCost(function, overload string, args []ref.Val, result ref.Val) (n int64, known bool) {
	if n := estimator.CallCost(function, overload, args, result); n != nil {
		return int64(min(*n, perExpression+1)), true
	}
	return 1, false
}

// Sizes of what counts as one part of an expression in calls that the library has no price for.
const (
	bytesPerCallPart    = 64
	elementsPerCallPart = 8
)

// slow are the functions that take several times as long, or make several times as much, as others for the same sizes.
var slow = map[string]int{"sort": 4, "@sortByAssociatedKeys": 4, "lists.range": 4, "reverse": 2, "slice": 2, "flatten": 2, "regex.replace": 8, "regex.extract": 8, "regex.extractAll": 8}

// callParts is how many parts of expressions a call counts as that the library has no price for, so that loops of such calls end.
func callParts(function string, args []ref.Val, result ref.Val) int {
	sum := sizeInParts(result)
	for _, a := range args {
		sum += sizeInParts(a)
	}
	if function == "distinct" { // it compares all elements with one another
		n := size(args[0])
		sum += n * n / elementsPerCallPart
	}
	return sum * max(1, slow[function])
}

func sizeInParts(v ref.Val) int {
	switch x := v.(type) {
	case types.String, types.Bytes:
		return length(x) / bytesPerCallPart
	case traits.Lister:
		return size(x) / elementsPerCallPart
	}
	return 0
}

// ended reports that the evaluation is over because of what it costs, or of what could not be had.
func (e *Evaluation) ended() bool { return e.remaining < 0 || e.failure != nil }

// spend charges units of cost. Beyond what one expression may cost the evaluation ends.
func (e *Evaluation) spend(n int64) {
	e.spent += n
	e.remaining -= n
	if e.cost += n; e.cost > perExpression && e.failure == nil {
		e.failure = errCallLimit
	}
}
