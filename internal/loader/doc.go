// Package loader compiles the context entries of a rule into a chain of lazily loaded variables.
//
//	chain, diags := loader.Compile(rule.Context, policyNamespace, "spec.rules[0].context")
//	scope = chain.Apply(scope)   // registers the entries; nothing is loaded yet
//
// An entry is loaded when a query uses its name, at most once per rule evaluation, and sees only the entries before it; an unused entry is
// never loaded, so its errors never appear.
//
// Each kind of entry has a file load_⟨name⟩.go, which declares its API field and its documentation, and builds the thunk. The package sends
// no requests itself: entries read the World in the scope.
//
// Floor 2: imports scope, policy and leaves.
package loader
