// Package webhooks keeps the webhook configurations of the admission and the cleanup controller in line with policies, settings and
// certificates, and writes the status of policies, which says whether their webhooks are written.
//
//	controller.Row{Name: "webhooks", Owner: controller.Leader, Sources: sources, Reconcile: controller.Singleton(reconciler.Once)}
//
// What the configurations contain, and how they are compared and written, is the business of package webhookconf.
//
// Floor 8: imports the floors below and control/serving.
package webhooks
