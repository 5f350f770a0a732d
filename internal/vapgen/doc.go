// Package vapgen translates policies that request it into policies of the API server: ClusterPolicies and ValidatingPolicies into
// ValidatingAdmissionPolicies, MutatingPolicies into MutatingAdmissionPolicies, if the API server can express all of their content.
//
//	t := vapgen.Of(object.GetAPIVersion(), object.GetKind())  // nil for a kind that is never translated
//	out, err := t.Translate(vapgen.Input{Object: object.Object, Exceptions: exceptions, Resources: discovery})
//	if out.Reason == "" {
//		// create out.Policy and out.Binding
//	}
//
// Ephor and the API server both evaluate a policy that validates: their verdicts are the same, reports and messages stay, and the
// policy is enforced while one of the two is unavailable. A policy that mutates is left to the API server (family.Family.HandedOver),
// since making a change twice can give another result. Content that the API server cannot express is not translated; Reason says why,
// with Kyverno's text if it has one.
//
// Reconciler writes the objects, and removes those whose policy is deleted or can no longer be translated. The package evaluates
// nothing, and reads only the served kinds from the cluster.
//
// Floor 7: imports the floors below, and webhookconf.
package vapgen
