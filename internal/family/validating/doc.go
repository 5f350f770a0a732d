// Package validating is the family of ValidatingPolicy and NamespacedValidatingPolicy of policies.kyverno.io: policies with expressions
// that must be true.
//
//	program := validating.Family.Compile(family.Source{Object: object})
//
// A Program has one rule for the policy and one for each generated configuration of Pod controllers. As the rule, reports show nothing or
// the part of the policy that produced the result (celpolicy.PartEvaluation, celpolicy.PartException).
//
// Compile does not make the checks that only the review of a policy needs; Review makes them.
//
// Floor 2: imports celpolicy, celrule, policy, api and leaves.
package validating
