// Package certs keeps the certificate authority and the serving certificate of a webhook server in two Secrets
// (control plane reference §4), and serves the pair without a restart.
//
//	plan, err := certs.Make(config, state, now)        // pure: what has to be issued, and why
//	err = (&certs.Reconciler{Config: config, Client: c, Reader: live}).Reconcile(ctx)  // leader only
//	var keeper certs.Keeper                            // every replica
//	keeper.Load(caSecret, tlsSecret, names)
//	tlsConfig.GetCertificate = keeper.GetCertificate   // no parsing in the handshake
//
// A renewed CA keeps the key of the old one, and the old certificate stays in the bundle until it has expired, so that
// a client which still trusts only the old one verifies what the new one signed.
//
// The package does not write the bundle into webhook configurations and does not renew certificates that somebody else
// manages.
//
// Floor 7: imports nothing of ours.
package certs
