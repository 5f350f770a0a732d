// Package engine runs compiled Programs against one Request and turns the Outcome into a verdict.
//
//	outcome := engine.Eval(ctx, engine.Input{Selections: snapshot.For(req, route), Request: req, Stages: policy.StageValidate, Root: root})
//	decision := engine.Decide(&outcome, engine.ValidateWording)
//
// Only this package turns a rule's panic, deadline or exhausted budget into a result, implements applyRules and the tolerance of
// pre-existing violations, and (in Decide) derives the verdict from actions and failurePolicy. It knows no rule kind and no policy
// family. It never does the deferred work of a rule, but returns it as Work.
//
// Floor 3: imports floors 0–2.
package engine
