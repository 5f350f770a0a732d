// Package native is the policy family of the API server itself: ValidatingAdmissionPolicies and MutatingAdmissionPolicies with
// their bindings, compiled so that the command line can say what they would do, and scans what they say of what exists.
//
//	program := native.Compile(native.Source{Policy: object, Bindings: bindings}, native.Options{})
//
// Package celrule compiles and evaluates conditions, variables, parameters, checks and mutations, as for every other language that
// uses CEL; what they cost is charged to the budget of the policy. The mutations of one policy are applied in order; a policy is
// not invoked again when others change the object after it. In a cluster the API server runs these policies, so that admission does not compile them.
//
// Floor 2: imports celrule, policy and leaves.
package native
