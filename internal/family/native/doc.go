// Package native is the policy family of the API server itself: ValidatingAdmissionPolicies and MutatingAdmissionPolicies with their
// bindings. It compiles them so that the command line can evaluate them, and scans can report their results for existing objects.
//
//	program := native.Compile(native.Source{Policy: object, Bindings: bindings}, native.Options{})
//
// Package celrule compiles and evaluates conditions, variables, parameters, checks and mutations, as for every other language that uses
// CEL; their cost is charged to the budget of the policy. The mutations of one policy are applied in order. A policy is not evaluated
// again when later policies change the object. In a cluster the API server evaluates these policies, so admission does not compile them.
//
// Floor 2: imports celrule, policy and leaves.
package native
