// Package keys finds the public keys that policies name: in PEM, in a Secret, in a key service, or at a URL.
//
//	keys := keys.New(keys.Options{Secret: readSecret, HTTP: egress})
//	all, err := keys.All(ctx, &world.KeyAttestor{KMS: "awskms:///alias/release"}, confined)
//
// A key text is parsed once. The answers of key services and URLs are valid for an hour, and for a day while the service does not answer.
// Requests to key services use the identity that the cloud gives to this process (see the file of each service). These credentials are
// sent only to the hosts of that cloud and to a host that a policy of the cluster or AWS_ENDPOINT_URL_KMS names for AWS KMS, signed for that
// host, and are never part of an error. Requests of namespaced policies may only use URLs that
// Options.Permit permits. Keys are never read from files or environment variables of this process.
//
// Floor 4: imports world and leaves.
package keys
