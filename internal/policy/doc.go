// Package policy is the waist of Ephor: the shared nouns that every policy family compiles to and that every consumer
// reads. Hardly any logic lives here.
//
//	program := compile.Compile(...)           // Program: headers plus closures, immutable, safe for all goroutines
//	outcome := engine.Eval(ctx, engine.Input{Programs: programs, Request: request, Root: root})
//	decision := engine.Decide(&outcome, engine.ValidateWording)
//
// It knows neither a policy family, nor an API version, nor where a Request came from.
//
// Floor 1: imports floor 0.
package policy
