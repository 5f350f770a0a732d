// Package loader compiles the context entries of a rule into a chain of lazily loaded variables.
//
//	chain, diags := loader.Compile(rule.Context, policyNamespace, "spec.rules[0].context")
//	scope = chain.Apply(scope)   // registers the entries; nothing is loaded yet
//
// An entry is loaded when a query mentions its name, at most once per rule evaluation, and sees only the entries that
// were defined before it; an entry that is never mentioned is never loaded, so its errors never appear.
//
// One file load_⟨name⟩.go per kind of entry declares the API field that it owns, its documentation, and how to build
// the thunk. The package talks to nothing itself: what an entry reads comes from the World in the scope.
//
// Floor 2: imports scope, policy and leaves.
package loader
