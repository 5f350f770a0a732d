// Package notary verifies signatures of the Notary Project (JWS and COSE envelopes).
//
//	verifier, err := notary.New(notary.Options{HTTP: egress})
//	err = verifier.Signature(ctx, artefact, world.CertificateAttestor{Certificate: pem}, tsaPEM)
//
// Only the certificates of a policy are trusted. With TSA certificates, a trusted timestamp is required, and a certificate that
// expired after that time is accepted. The level is strict: the checks of integrity, authenticity, expiry and revocation must all
// succeed. The package queries over HTTP whether a certificate is revoked (revocation.go), and sends no other requests. Envelopes
// come from package sigverify, which reads registries. Plugins of Notary are not supported: a signature that requires one does not
// verify.
//
// Floor 4: imports sigverify and world.
package notary
