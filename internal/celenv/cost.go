package celenv

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"ephor.invalid/ephor/internal/budget"
)

// The cost of evaluations is measured in the units of the API server. The library's own accounting observes every node and keeps all
// values on a stack, which takes longer than the evaluation itself. Instead, an expression is charged for its parts when it starts, a
// loop for the parts of its step in each iteration, and a call for the size of its arguments, with the library's formulas.

// perExpression is the maximum cost of one expression.
const perExpression = celconfig.PerCallLimit / budget.Share

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

// libraryCost returns the library's price of a completed call; one unit for a function without one.
func libraryCost(function, overload string, args []ref.Val, result ref.Val) int64 {
	if n := estimator.CallCost(function, overload, args, result); n != nil {
		return int64(min(*n, perExpression+1))
	}
	return 1
}

// ended reports whether the evaluation has ended because of its cost, because a lookup failed, or because the context is done.
func (e *Evaluation) ended() bool { return e.remaining < 0 || e.failure != nil || e.over }

// spend charges units of cost. The evaluation ends when it exceeds the cost limit of one expression.
func (e *Evaluation) spend(n int64) {
	n = min(n, perExpression+1) // what is refused does not count
	e.spent += n
	e.remaining -= n
	e.look(n)
	if e.cost += n; e.cost > perExpression && e.failure == nil {
		e.failure = errCallLimit
	}
	e.exceeded = e.exceeded || e.cost > perExpression || e.remaining < 0
}

// take charges parts of expressions. The evaluation ends when it exceeds the limit.
func (e *Evaluation) take(parts int) {
	e.look(int64(parts))
	if e.loopParts += parts; int64(e.loopParts) > e.limit {
		e.loopParts = int(e.limit) + 1 // what is refused does not count
		e.remaining, e.exceeded = -1, true
	}
}

// Exceeded reports whether the evaluation exceeded one of its limits.
func (e *Evaluation) Exceeded() bool { return e.exceeded }

// lookEvery is the number of units of cost after which an evaluation looks at its context: less than a millisecond.
const lookEvery = 2000

// look looks at the context, before work of that cost.
func (e *Evaluation) look(n int64) {
	if e.unseen += n; e.unseen >= lookEvery {
		e.unseen = 0
		e.over = e.over || e.ctx.Err() != nil
	}
}
