// Package unlock takes the webhook configurations away for a while, and puts them back: the way out when admission keeps
// the cluster from being repaired.
//
//	report, err := (&unlock.Installation{Client: c, Namespace: "kyverno", ConfigMap: "kyverno", Now: time.Now}).Open(ctx, time.Hour)
//	report, err  = installation.Close(ctx)                                  // also when no controller runs
//	until, err := unlock.Until(configMap.Annotations)               // what the controllers ask before they write
//
// Open notes on the main ConfigMap until when the cluster is unlocked, keeps the configurations in a Secret and deletes
// them. Controllers write none until then. Deleting a webhook configuration is never sent to webhooks, so it works in
// whatever state admission is.
//
// The package talks to the API server with the rights of its caller and starts nothing. Floor 7: imports
// webhookconf for the label of the configurations.
package unlock
