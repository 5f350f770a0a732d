// Package native is the policy family of the API server itself: MutatingAdmissionPolicies with their bindings, compiled so
// that the command line can say what they would do.
//
//	program := native.Compile(native.Source{Policy: object, Bindings: bindings}, native.Options{})
//
// Match constraints, conditions, variables, parameters and mutations are evaluated by the API server's own library, with
// its cost limits. The mutations of one policy are applied in order; a policy is not invoked again when others change the
// object after it. In a cluster the API server runs these policies, so that admission does not compile them.
// ValidatingAdmissionPolicies are not compiled yet.
//
// Floor 2: imports policy, world and leaves.
package native
