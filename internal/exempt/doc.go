// Package exempt applies exceptions to rules. It is the only place that does, for every family and for admission, scans, deferred
// work and the command line alike.
//
//	verdict, err := terms.Evaluate(call, variables)
//	switch {
//	case err != nil:     // the conditions of an exception have no value, which the family's terms do not pass over
//	case verdict.Exempt: // verdict.Result is the result of the rule
//	default:             // evaluate the rule, with what verdict.Partial allows
//	}
//
// What differs by family are the Terms: whether a rule can be evaluated in part, what an error means, and how results read. An
// exception that has expired is none: package intake takes it out of the catalog.
//
// The package does not compile exceptions (package exception, and the families) and does not join them to rules (package catalog).
//
// Floor 2: imports budget and policy.
package exempt
