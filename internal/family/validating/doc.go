// Package validating is the family of ValidatingPolicy and NamespacedValidatingPolicy of policies.kyverno.io: policies whose
// expressions have to hold.
//
//	program := validating.Family.Compile(family.Source{Object: object})
//
// A Program has one rule for the policy and one for each configuration of controllers of Pods that is generated from it. Reports name
// no rule, or the part of the policy that gave the result (celpolicy.PartEvaluation, celpolicy.PartException).
//
// It does not check what only the review of a policy refuses; Review does.
//
// Floor 2: imports celpolicy, celrule, policy, api and leaves.
package validating
