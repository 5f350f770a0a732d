// Package vapgen turns policies that ask for it into policies of the API server itself: ClusterPolicies and ValidatingPolicies into
// ValidatingAdmissionPolicies, MutatingPolicies into MutatingAdmissionPolicies, when all that they say can be said there.
//
//	t := vapgen.Of(object.GetAPIVersion(), object.GetKind())  // nil for a kind that becomes nothing
//	out, err := t.Translate(vapgen.Input{Object: object.Object, Exceptions: exceptions, Resources: discovery})
//	if out.Reason == "" {
//		// out.Policy and out.Binding are to be there
//	}
//
// Both evaluate a policy that validates: their verdicts are the same, reports and messages stay, and the policy is enforced while the
// one or the other is not there. A policy that mutates is left to the API server (family.Family.HandedOver), since a change that is
// made twice is another change. What the API server has no words for cannot be translated; Reason says so, where Kyverno says it,
// in Kyverno's words.
//
// Reconciler makes the objects so, and removes those whose policy is gone or cannot be translated any more. The
// package evaluates nothing, and reads no cluster besides the kinds that are served.
//
// Floor 7: imports the floors below, and webhookconf.
package vapgen
