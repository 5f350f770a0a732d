// Package sigverify verifies signatures and attestations of images: it implements world.Signatures.
//
//	verifier, err := sigverify.New(sigverify.Options{Registry: client, Keys: resolver, Trust: keeper})
//	digest, err := verifier.Verify(ctx, world.SignatureRequest{Image: "ghcr.io/team/app:1", Format: sigverify.Cosign, Attestor: attestor})
//
// A verification has three steps, each in files of its own. The reader (image.go) finds what a registry holds about one
// digest: layers below the tags .sig and .att (cosign.go), and Sigstore bundles that refer to the image (bundle.go). It reads each of
// them once for all attestors. All become the same type, an artefact (artefact.go). An attestor (attestor.go) prepares what it trusts,
// and asks for what it does not name itself, such as the keys of a public log, only when there is something to verify with it. Then one artefact has to satisfy
// everything that the attestor demands (check.go): signature, claim, log entry (log.go), time (timestamps.go), certificate
// (certificate.go), identity (identity.go) and annotations.
//
// An *world.UnverifiedError says that everything was read and nothing satisfies. Any other error says that this could not be found
// out. Nothing is written, to the registry or to disk.
//
// Floor 4: imports registry and leaves.
package sigverify
