// Package validating is the family of ValidatingPolicy and NamespacedValidatingPolicy of policies.kyverno.io: policies with expressions
// that must be true.
//
//	program := validating.Family.Compile(family.Source{Object: object})
//
// A Program has one rule for the policy and one for each generated configuration of Pod controllers. Reports name no rule, or the part of
// the policy that gave the result (celpolicy.PartEvaluation, celpolicy.PartException).
//
// Checks that apply only to the review of a policy are in Review, not in Compile.
//
// Floor 2: imports celpolicy, celrule, policy, api and leaves.
package validating
