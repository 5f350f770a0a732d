// Package trace is the notebook of an evaluation: what was asked, what the answer was, and what decided. `ephor explain`
// reads it aloud.
//
//	log := &trace.Log{}
//	request.Trace = log                       // policy.Request; every other evaluation leaves it nil
//	engine.Eval(ctx, engine.Input{…})
//	log.Rules[0].Clauses[0]                   // {Path: spec.rules[0].match.any[0].resources.kinds, Want: [Pod], Got: v1/Pod, Holds: true}
//
// The evaluation itself takes the notes, there is no second way to evaluate: matchers note clauses, queries and context
// entries what they gave, conditions and patterns what they found. A nil Log takes none and costs one comparison. A Log
// belongs to one goroutine, and holds a bounded number of notes for each rule.
//
// It decides nothing and words nothing.
//
// Floor 0: imports nothing of ours.
package trace
