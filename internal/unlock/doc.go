// Package unlock temporarily removes the webhook configurations and restores them, for use when admission prevents the repair of a cluster.
//
//	report, err := (&unlock.Installation{Client: c, Namespace: "kyverno", ConfigMap: "kyverno", Now: time.Now}).Open(ctx, time.Hour)
//	report, err  = installation.Close(ctx)                                  // also when no controller runs
//	until, err := unlock.Until(configMap.Annotations)               // controllers check this before they write
//
// Open records on the main ConfigMap until when the cluster is unlocked, stores the configurations in a Secret and deletes them. Until
// then, controllers write no configurations. The API server never sends the deletion of a webhook configuration to webhooks, so Open works
// whatever the state of admission.
//
// The package talks to the API server with the rights of its caller and starts nothing. Floor 7: imports webhookconf for the label of the
// configurations.
package unlock
