// Package autogen writes the rules for pod controllers that a policy on Pods implies: `autogen-⟨rule⟩` for
// Deployments, Jobs and the like, `autogen-cronjob-⟨rule⟩` for CronJobs.
//
//	for _, g := range autogen.Expand(spec.Rules, annotations) {
//		compile(g.Rule, g.Origin)   // after the authored rules
//	}
//
// Patterns are wrapped in the pod template; everything else is rewritten as text, on the decoded JSON of the rule,
// because that is the documented behaviour that authors rely on (`request.object.spec` becomes
// `request.object.spec.template.spec` in keys and values, wherever it stands). It happens once, when a policy is
// compiled. The package does not validate rules and does not compile them.
//
// Floor 2: imports match.
package autogen
