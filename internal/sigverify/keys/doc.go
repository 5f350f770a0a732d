// Package keys finds the public keys that policies name: in PEM, in a Secret, in a key service, or behind a URL.
//
//	keys := keys.New(keys.Options{Secret: readSecret, HTTP: egress})
//	all, err := keys.All(ctx, &world.KeyAttestor{KMS: "awskms:///alias/release"}, confined)
//
// A key text is parsed once. The answers of key services and of URLs hold for an hour, and longer while the service does not answer.
// Requests to key services use the identity that the cloud gives to this process (see each service's file); their credentials go to the
// hosts of that cloud only, and are in no error. Requests of namespaced policies ask what Options.Permit permits. Files and the
// environment of this process are no keys.
//
// Floor 4: imports world and leaves.
package keys
