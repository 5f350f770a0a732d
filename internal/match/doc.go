// Package match evaluates the match and exclude blocks of the classic language, compiled to closures: they decide whether
// a rule applies to a request.
//
//	m, diags := match.Compile(rule.MatchResources, rule.ExcludeResources, policyNamespace, "spec.rules[0]")
//	ok, err := m.Match(ctx, request)          // err: a lookup failed; do not treat it as false
//	rule.Targets, rule.Excludes = m.Targets(), m.Excludes()
//
// There is one file for each matcher (match_kind.go, match_name.go, …). Within a filter, cheap tests run first and tests
// that need a lookup (namespace labels, roles) last. Package index uses the Targets to find candidate rules.
//
// The package does not apply the resource filters and user exclusions of the configuration (settings, admission), does not
// know policy exceptions, and does not read the world: the Request provides all data.
//
// Floor 2: imports floors 0–1 and the API types.
package match
