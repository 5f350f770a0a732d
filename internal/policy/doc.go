// Package policy is the waist of Ephor: the common types that every policy family compiles to and that every consumer reads. It holds
// hardly any logic.
//
//	program := compile.Compile(...)           // Program: headers plus closures, immutable, safe for all goroutines
//	outcome := engine.Eval(ctx, engine.Input{Programs: programs, Request: request, Root: root})
//	decision := engine.Decide(&outcome, engine.ValidateWording)
//
// It is independent of policy families, API versions and the origin of a Request.
//
// Floor 1: imports floor 0.
package policy
