// Package generating is the family of GeneratingPolicy and NamespacedGeneratingPolicy of policies.kyverno.io: policies that make objects
// when others are created or changed.
//
//	program := generating.Family.Compile(family.Source{Object: object})   // one rule of stage generate
//
// The rule asks for work when its constraints and conditions hold; the objects are made by the evaluation that plans the work
// (policy.Call.Plan): by calls of generator.apply in expressions (apply.go), and by templates (template.go). What becomes of them when
// the trigger stops matching is in lifecycle.go.
//
// It writes nothing: the executor of the work adds the labels by which objects are found again.
//
// Floor 2: imports celpolicy, celrule, policy and leaves.
package generating
