// Package webhookserver holds the parts of a process with webhooks beside its answers: the certificate, the secret segments in the paths,
// and the conditions for its webhook configurations.
//
//	certs := webhookserver.NewCertificates(flags, namespace, service, controller, manager, log)
//	paths := webhookserver.NewPaths(flags, on, secret, namespace, deployment, controller, manager, log)
//	next, err := paths.Round(ctx, &unlocked, write)   // the leader: writes the configurations with the paths in force
//
// Every replica serves the certificate and follows the Secrets; the leader renews them. Installation removes the configurations with the
// namespace, Unlocked keeps them away while the cluster is unlocked, and Heartbeat finds out whether reviews are answered.
//
// The package answers no review (package admission) and makes no configuration (package webhookconf).
//
// Floor 8: imports the floors below.
package webhookserver
