// Package serving manages what a process with webhooks needs besides answering reviews: its certificate, the secret segments in the
// webhook paths, and the conditions for its webhook configurations.
//
//	certs := serving.NewCertificates(flags, namespace, service, controller, manager, log)
//	paths := serving.NewPaths(flags, on, secret, namespace, deployment, controller, manager, log)
//	next, err := paths.Round(ctx, &unlocked, write)   // the leader writes the configurations with the current paths
//
// Every replica serves the certificate and follows the Secrets; the leader renews them. Installation removes the configurations when the
// namespace is deleted, Unlocked prevents their creation while the cluster is unlocked, and Heartbeat detects whether reviews are
// answered.
//
// The package does not answer reviews (package admission does) and does not build the configurations (package webhookconf does).
//
// Floor 8: imports the floors below.
package serving
