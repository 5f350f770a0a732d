// Package typecheck turns the text of a CEL expression into a checked expression: it parses the text, refuses what the type checker could not
// finish in time, and checks the types.
//
//	checked, err := typecheck.Check(d.Env(), "object.spec.replicas > 1", allowance)
//	err = typecheck.HasType(d.Kind, checked.OutputType(), typecheck.Bool)
//
// A CompileError lists the mistakes of the author, with lines and columns. Condition says whether an API server accepts a match condition of a
// webhook.
//
// Floor 0 (leaf): imports cel/env, cel/price, compilecost and kubeversion.
package typecheck
