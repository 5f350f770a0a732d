// Package autogen derives rules for pod controllers from a policy on Pods: `autogen-⟨rule⟩` for Deployments, Jobs
// and other controllers, `autogen-cronjob-⟨rule⟩` for CronJobs.
//
//	for _, g := range autogen.Expand(spec.Rules, annotations) {
//		compile(g.Rule, g.Origin)   // after the authored rules
//	}
//
// Patterns are wrapped in the pod template. Everything else is rewritten as text in the decoded JSON of the rule:
// `request.object.spec` becomes `request.object.spec.template.spec` in all keys and values. This is the documented
// behaviour, and authors rely on it. It happens once, when a policy is compiled. The package neither validates nor
// compiles rules.
//
// Floor 2: imports match.
package autogen
