// Package exempt applies exceptions to rules. It is the only package that does so, for all families and for admission, scans, deferred
// work and the command line.
//
//	verdict, err := terms.Evaluate(call, variables)
//	switch {
//	case err != nil:     // the time is over; or an exception cannot be evaluated, and the family's terms treat that as an error
//	case verdict == nil: // no exception applies: evaluate the rule
//	case verdict.Exempt: // verdict.Result is the result of the rule
//	default:             // evaluate the rule, with what verdict.Partial allows
//	}
//
// The Terms differ by family: whether a rule can be evaluated in part, what an error means, and how results read. An expired exception has
// no effect: package intake removes it from the catalog, and cli/load leaves it out.
//
// The package does not compile exceptions (package exception and the families do) and does not join them to rules (package catalog does).
//
// Floor 2: imports budget and policy.
package exempt
