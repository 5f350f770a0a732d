// Package env declares what CEL expressions of each kind of policy know: variables, types, and the functions of libraries.
//
//	d := env.Declarations{Kind: env.Validating}
//	names := d.Functions()
//
// A Library adds to the API server's base environment, or restricts it. Each has its own file, lib_⟨name⟩.go, and library.go has the list. The
// functions of a library see a Scope of the evaluation: the World that they query, the meter that they charge, and what the policy may do.
//
// Environments are built on first use, and goroutines share them: Check and Extended lock them.
//
// Floor 0 (leaf): imports apipath, bounded, cel/jwt, cel/price, cel/values, certificate, kubeversion, textgen, value and world.
package env
