// Package native generates ValidatingAdmissionPolicies and MutatingAdmissionPolicies of the API server from policies that ask for them, and
// writes to the status of these policies what was generated.
//
//	controller.Row{Name: "admissionpolicy-generator", Owner: controller.Leader, Sources: sources, Reconcile: controller.Singleton(reconciler.Once)}
//
// What is generated, and how it is compared and written, is the business of package vapgen.
//
// Floor 8: imports the floors below.
package native
