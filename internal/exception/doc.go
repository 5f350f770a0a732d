// Package exception reads PolicyExceptions: it decodes, checks and compiles them to policy.Exception, closures that
// report whether a resource is exempt.
//
//	e, diags := exception.Compile(object)     // object: a decoded PolicyException of any served version
//	if !diags.HasErrors() {
//		joined := catalog.Join(programs, []*policy.Exception{e})
//	}
//
// The match block is that of policies (package match), read with the rules of exceptions: operations are passed over,
// and a namespaceSelector lets Namespaces pass. Conditions see the variables of the rule that is evaluated.
//
// The package does not join exceptions to rules (catalog does) and does not evaluate them (exempt does). It knows nothing of the
// PolicyExceptions of policies.kyverno.io, which are another kind.
//
// Floor 2: imports floors 0–1, scope, match, pss and the API types.
package exception
