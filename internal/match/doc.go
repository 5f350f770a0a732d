// Package match decides which rules a request is for: the match and exclude blocks of a rule compiled to closures, and
// an index over many Programs that finds the rules worth asking.
//
//	m, diags := match.Compile(rule.MatchResources, rule.ExcludeResources, policyNamespace, "spec.rules[0]")
//	ok, err := m.Match(ctx, request)          // err: a lookup failed; never to be read as false
//
//	index := match.NewIndex(programs)
//	for _, s := range index.Lookup(request, policy.StageValidate) { … } // s.Program, s.Rules: those that may match
//
// One file per matcher (match_kind.go, match_name.go, …). Inside a filter the cheap tests run first and those that have
// to look something up (namespace labels, roles) last. The index answers a superset of what Match accepts, at a cost
// that does not depend on the number of Programs for other kinds, nor on those that only a literal name, namespace or
// label excludes.
//
// The package does not apply the resource filters and user exclusions of the configuration (settings, admission), does
// not know policy exceptions, and asks nothing of the world: the Request brings what it needs.
//
// Floor 2: imports floors 0–1 and the API types.
package match
