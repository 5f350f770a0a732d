// Package vapgen turns policies into ValidatingAdmissionPolicies of the API server: a ClusterPolicy whose only rule is
// validate.cel with generate: true, when all that it says can be said there.
//
//	out, err := vapgen.Generate(vapgen.Input{Policy: policy, Exceptions: exceptions, Resources: discovery})
//	if out.Reason == "" {
//		// out.Policy and out.Binding are to be there
//	}
//
// The rule goes on being evaluated by Ephor, too: what both say is the same, reports and messages stay, and a policy is
// enforced while the one or the other is not there. Policies that are evaluated by kinds in older notations, by names with
// wildcards, by users or by annotations cannot be translated; Reason says so in Kyverno's words.
//
// Reconciler makes the objects so, and takes those away whose policy is gone or cannot be translated any more. The
// package evaluates nothing, and reads no cluster besides the kinds that are served.
//
// Floor 7: imports the floors below, and webhookconf.
package vapgen
