// Package certs keeps the certificate authority and the serving certificate of a webhook server in two Secrets, and serves the pair without
// a restart.
//
//	plan, err := certs.Make(config, state, now)        // pure: what has to be issued, and why
//	next, err := (&certs.Reconciler{Config: config, Client: c, Reader: live, …}).Reconcile(ctx)  // leader only
//	var keeper certs.Keeper                            // every replica
//	err = keeper.Load(caSecret, tlsSecret)
//	tlsConfig.GetCertificate = keeper.GetCertificate   // no parsing in the handshake
//	tlsConfig = keeper.ServerTLS("sender")             // between our own processes: both ends have certificates of one authority
//
// No rotation breaks a connection. A renewed CA keeps the key of the old one, and the old certificate stays in the bundle until it has
// expired. If the key is new (the Secret was deleted or damaged, or the algorithm changed), the bundle first holds the old and the new
// authority. The serving certificate is issued only when every webhook configuration has that bundle. Servers keep their certificate if the
// Secrets hold something worse.
//
// The package does not write the bundle into webhook configurations and does not renew certificates that another controller manages. It
// returns the expiry of certificates (Expiries), but does not report it.
//
// Floor 7: imports nothing of ours.
package certs
