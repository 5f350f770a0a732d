// Package policy defines the common types of Ephor: every policy family compiles to them, and every consumer reads them. It contains
// hardly any logic.
//
//	program := compile.Compile(...)           // a Program is immutable and safe for concurrent use
//	outcome := engine.Eval(ctx, engine.Input{Programs: programs, Request: request, Root: root})
//	decision := engine.Decide(&outcome, engine.ValidateWording)
//
// It is independent of policy families, API versions and the origin of a Request.
//
// Floor 1: imports floor 0.
package policy
