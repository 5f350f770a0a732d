// Package mutating is the family of MutatingPolicy and NamespacedMutatingPolicy of policies.kyverno.io: policies whose expressions change
// the object of a request.
//
//	program := mutating.Family.Compile(family.Source{Object: object})
//
// A Program has one rule for the policy and one for each configuration of controllers of Pods that is generated from it (autogen.go,
// rewrite.go). Where Programs for existing objects are asked for, the rules tell whether the policy would change an object. Each mutation
// sees what the one before it made of the object; a variable is evaluated once, at first use.
//
// It changes no existing objects: a policy with targets has no rule for requests.
//
// Floor 2: imports celpolicy, celrule, policy, api and leaves.
package mutating
