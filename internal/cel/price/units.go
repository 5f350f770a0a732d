package price

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/library"
)

// The cost of evaluations is measured in the units of the API server. The library's own accounting observes every node and keeps all
// values on a stack, which takes longer than the evaluation itself. Instead, an expression is charged for its nodes when it starts, a
// loop for the nodes of its step in each iteration, and a call for the size of its arguments, with the library's formulas.

// cost is the way in which the price of a call depends on its arguments.
type cost uint8

const (
	costNothing   cost = iota // only the cost of the node
	costText                  // a tenth of the length of the text
	costTexts                 // a tenth of both lengths
	costLesser                // a tenth of the shorter length
	costList                  // the length of the second argument
	costSearch                // the product of a tenth of each length
	costPattern               // the product of a tenth of the text and a quarter of the pattern
	costByLibrary             // the result of the library's estimator
)

var costs = map[string]cost{
	"startsWith": costText, "endsWith": costText, "string": costText, "bytes": costText, "strings.quote": costText, "format": costText,
	operators.In: costList, operators.Add: costTexts, "contains": costSearch, "matches": costPattern,
	operators.Less: costLesser, operators.LessEquals: costLesser, operators.Greater: costLesser, operators.GreaterEquals: costLesser,
}

// fixedCost are the functions that cost no more than their node.
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
			return int64(Size(l))
		}
	case costSearch:
		return tenth(l) * tenth(r)
	case costPattern:
		return tenth(l) * (1 + int64(length(r))/4)
	}
	return 1
}

func tenth(v ref.Val) int64 { return 1 + int64(length(v))/10 }

var estimator = &library.CostEstimator{}

// libraryCost returns the library's price of a completed call; one unit for a function without one.
func libraryCost(function, overload string, args []ref.Val, result ref.Val) int64 {
	if n := estimator.CallCost(function, overload, args, result); n != nil {
		return int64(min(*n, perExpression+1))
	}
	return 1
}
