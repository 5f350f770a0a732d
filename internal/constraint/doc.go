// Package constraint compiles match constraints in the API server's notation: resourceRules, excludeResourceRules, namespaceSelector and
// objectSelector. Every policy language with such constraints uses it.
//
//	c, diags := constraint.Compile(spec.MatchConstraints, "spec.matchConstraints", constraint.Options{})
//	ok, err := c.Match(ctx, request)      // err: a lookup failed; do not treat it as false
//	rule.Targets, rule.Excludes = c.Targets(), c.Excludes()
//
// A rule of the constraints becomes one policy.Target for each combination of its groups, versions and resources; their number is bounded.
// matchPolicy is passed on to the webhook rules (Target.ExactVersion) and does not affect Match.
//
// Floor 2: imports policy and leaves.
package constraint
