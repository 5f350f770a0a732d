// Package match decides whether a rule of the classic language is for a request: its match and exclude blocks, compiled to
// closures.
//
//	m, diags := match.Compile(rule.MatchResources, rule.ExcludeResources, policyNamespace, "spec.rules[0]")
//	ok, err := m.Match(ctx, request)          // err: a lookup failed; never to be read as false
//	rule.Targets, rule.Excludes = m.Targets(), m.Excludes()
//
// One file per matcher (match_kind.go, match_name.go, …). Inside a filter the cheap tests run first and those that have
// to look something up (namespace labels, roles) last. Package index finds the rules worth asking by their Targets.
//
// The package does not apply the resource filters and user exclusions of the configuration (settings, admission), does
// not know policy exceptions, and asks nothing of the world: the Request brings what it needs.
//
// Floor 2: imports floors 0–1 and the API types.
package match
