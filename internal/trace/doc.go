// Package trace records an evaluation: the queries, their results, and what decided the outcome. `ephor explain` prints
// it.
//
//	log := &trace.Log{}
//	request.Trace = log                       // policy.Request; every other evaluation leaves it nil
//	engine.Eval(ctx, engine.Input{…})
//	log.Rules[0].Clauses[0]                   // {Path: spec.rules[0].match.any[0].resources.kinds, Want: [Pod], Got: v1/Pod, Holds: true}
//
// The normal evaluation makes the records; there is no second way to evaluate. Matchers record clauses, queries and
// context entries record their results, conditions and patterns record their outcomes. A nil Log records nothing and
// costs one comparison. A Log belongs to one goroutine, and holds a bounded number of records for each rule.
//
// It makes no decisions and formats no messages.
//
// Floor 0: imports nothing of ours.
package trace
