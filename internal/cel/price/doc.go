// Package price says what CEL expressions cost, and limits it.
//
//	m := price.NewMeter(ctx, price.Budget)
//	if err := m.Pay(price.Of("join"), &sizes, list, separator, nil); err != nil { // before the call
//		return err
//	}
//
// There are two measures, because two limits hold, and no third one:
//
//	units  what the API server counts, by its formulas (units.go). Its limits decide whether a policy that the API server would stop is
//	       stopped here as well, so units cannot be expressed in another measure.
//	steps  time, as the classic language counts it (package budget): the API server's units are no upper bound for it. A step takes less
//	       than 10 ns; evaluating a node of an expression, or visiting a value, takes ten (charge.go).
//
// A Meter counts both for one evaluation, whose steps are limited like those of a rule in the classic language. At its end, package celrule
// charges what was Spent to the policy's budget.Meter, whose account is the same for all rules of a policy in either language. It is charged
// once, since a unit stands for ten steps and only the larger of the two sums counts, and since the evaluations of a rule have limits of
// their own, like those of the API server.
//
// Bytes, elements and values have no budget: Steps converts them. A Limit is no price: it refuses a call whose result or work would be too
// large for any budget (limits.go, sizes.go). `go run ./bench charges` compares the charges with the time of the calls.
//
// Floor 0 (leaf): imports budget, cel/values and compilecost.
package price
