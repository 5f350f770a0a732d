// Package celrule compiles and evaluates rules that are written in CEL: variables, match conditions, validations with their
// messages, audit annotations, mutations, and parameters. Every language that uses CEL goes through it, so that all have the same guards,
// the same input and the same budget.
//
//	c := celrule.New(celenv.Declarations{}, allowance)
//	c.Variables(spec.Variables, "spec.variables")
//	rule := celrule.Rule{Conditions: c.Conditions(spec.MatchConditions, "spec.matchConditions")}
//	rule.Validations = append(rule.Validations, c.Validation(&spec.Validations[0], "spec.validations[0]", celenv.String))
//	rule.Named = c.Named()
//	needs, diags := c.Needs(), c.Diags
//
//	in, err := celrule.Input(call)
//	applies, err := rule.Applies(ctx, meter, in)
//	outcome, err := rule.Check(ctx, meter, in)
//	object, err := rule.Mutate(ctx, meter, in, mutation, types)
//
// What expressions cost is charged to the meter, in evaluate.go and nowhere else. Which parts of the request they read comes
// from their checked form (needs.go).
//
// The package decides nothing about requests: what a condition without a value or a validation that does not hold means, and
// how it is worded, is for each language.
//
// Floor 2: imports policy, world and leaves.
package celrule
