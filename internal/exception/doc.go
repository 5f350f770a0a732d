// Package exception compiles PolicyExceptions: it decodes and checks them, and returns policy.Exception, whose closures report whether a
// resource is exempt.
//
//	e, diags := exception.Compile(object, family.Options{})     // object: a decoded PolicyException of any served version
//	if !diags.HasErrors() {
//		joined := catalog.Join(programs, []*policy.Exception{e})
//	}
//
// The match block is that of policies (package match), with the rules of exceptions: operations are ignored, and a namespaceSelector
// accepts Namespaces. Conditions read the variables of the evaluated rule.
//
// The package does not join exceptions to rules (catalog does) and does not evaluate them (exempt does). It knows nothing of the
// PolicyExceptions of policies.kyverno.io, which are another kind.
//
// Floor 2: imports floors 0–1, scope, match, pss and the API types.
package exception
