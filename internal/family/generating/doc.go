// Package generating is the family of GeneratingPolicy and NamespacedGeneratingPolicy of policies.kyverno.io: policies that create objects
// when others are created or changed.
//
//	program := generating.Family.Compile(family.Source{Object: object})   // one rule of stage generate
//
// The rule yields work if its constraints and conditions are true. The evaluation that plans the work (policy.Call.Plan) computes the
// objects: from calls of generator.apply in expressions (apply.go), and from templates (template.go). lifecycle.go handles objects that
// are no longer triggers.
//
// It writes nothing to the cluster; the executor of the work adds the labels that identify the objects.
//
// Floor 2: imports celpolicy, celrule, policy and leaves.
package generating
