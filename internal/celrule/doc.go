// Package celrule compiles and evaluates rules in CEL: variables, match conditions, validations with their messages, audit annotations,
// mutations, and parameters. Every language that uses CEL uses this package, so that all have the same guards, the same input and the
// same budget.
//
//	c := celrule.New(env.Declarations{}, allowance)
//	c.Variables(spec.Variables, "spec.variables")
//	rule := celrule.Rule{Conditions: c.Conditions(spec.MatchConditions, "spec.matchConditions")}
//	rule.Validations = append(rule.Validations, c.Validation(&spec.Validations[0], "spec.validations[0]", typecheck.String))
//	rule.Named = c.Named()
//	needs, diags := c.Needs(), c.Diags
//
//	in, err := celrule.Input(call)
//	applies, err := rule.Applies(ctx, meter, in)
//	outcome, err := rule.Check(ctx, meter, in)
//	object, err := rule.Mutate(ctx, meter, in, mutation, types)
//
// Only evaluate.go charges the cost of expressions to the meter. The checked form of the expressions shows which parts of the request
// they read (needs.go).
//
// The package makes no decisions about requests: each language decides what a condition without a value or a failed validation means, and
// formats the message.
//
// Floor 2: imports policy, world and leaves.
package celrule
