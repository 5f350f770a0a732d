// Package sigverify verifies signatures and attestations of images: it implements world.Signatures.
//
//	verifier, err := sigverify.New(sigverify.Options{Registry: client, Keys: resolver, Trust: keeper})
//	digest, err := verifier.Verify(ctx, world.SignatureRequest{Image: "ghcr.io/team/app:1", Format: sigverify.Cosign, Attestor: attestor})
//
// A verification has three steps, each in its own files. The reader (image.go) finds the signatures that a registry holds for one digest:
// layers below the tags .sig and .att (cosign.go), and Sigstore bundles that refer to the image (bundle.go). It reads each of them once for
// all attestors, and converts all to the same type, artefact (artefact.go). An attestor (attestor.go) prepares the keys and certificates that
// it trusts. It fetches those that it does not set itself, such as the keys of a public log, only if there is something to verify with them.
// Then one artefact must satisfy all requirements of the attestor (check.go): signature, claim, log entry (log.go), time (timestamps.go),
// certificate (certificate.go), identity (identity.go) and annotations.
//
// A *world.UnverifiedError means that everything was read, and nothing satisfies the attestor. Any other error means that this could not be
// determined. The package writes nothing, neither to the registry nor to disk.
//
// Floor 4: imports registry and leaves.
package sigverify
