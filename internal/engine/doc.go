// Package engine runs compiled Programs against one Request and turns the Outcome into a verdict.
//
//	outcome := engine.Eval(ctx, engine.Input{Selections: snapshot.For(req, route), Request: req, Stages: policy.StageValidate, Root: root})
//	decision := engine.Decide(&outcome, engine.ValidateWording)
//
// It is the only place where a rule's panic, deadline or budget becomes a result, where applyRules and pre-existing
// violations are evaluated, and (Decide) where actions and failurePolicy become a verdict. It knows no rule kind and no
// policy family, and it never does what a rule asks for: Work is returned.
//
// Floor 3: imports floors 0–2.
package engine
