// Package mutating is the family of MutatingPolicy and NamespacedMutatingPolicy of policies.kyverno.io: policies whose expressions change
// the object of a request.
//
//	program := mutating.Family.Compile(family.Source{Object: object})
//
// A Program has one rule for the policy and one for each generated configuration of Pod controllers (autogen.go, rewrite.go). In Programs
// for existing objects, the rules report whether the policy would change an object. Each mutation is evaluated on the result of the
// previous one; a variable is evaluated once, at its first use.
//
// It does not write existing objects: it plans changes of them as work (existing.go). A policy with targets has no rule for requests.
//
// Floor 2: imports celpolicy, celrule, policy, api and leaves.
package mutating
