// Package notary verifies signatures of the Notary Project (JWS and COSE envelopes).
//
//	verifier, err := notary.New(notary.Options{HTTP: egress})
//	err = verifier.Signature(ctx, artefact, world.CertificateAttestor{Certificate: pem}, tsaPEM)
//
// The certificates of a policy are the only ones that are trusted; with TSA certificates, a trusted time stamp is required, and a
// certificate that expired after it counts. The level is strict: integrity, authenticity, expiry and revocation all have to hold.
// Whether a certificate is revoked is asked over HTTP (revocation.go), and this is the only thing that is asked. Envelopes come from
// package sigverify, which reads registries. Plugins of Notary are not supported: a signature that demands one does not verify.
//
// Floor 4: imports sigverify and world.
package notary
