// Package manifest reads the signatures in a resource's annotations and compares the resource with the signed manifest.
//
//	claim, err := manifest.Read(object, "cosign.sigstore.dev")
//	signer, err := world.Signatures.Blob(ctx, …)      // claim.Message, claim.Signatures
//	differences, err := claim.Compare(object, domain, ignored)
//
// Only signed content is ever parsed: call Compare only for claims with a verified signature. Changes that the API server makes are
// not differences: metadata that it sets, and fields that it fills with their defaults (defaults.txt). A field with a value other than
// its default was added by a user.
//
// The package verifies no signatures and sends no requests: package sigverify does, as for images.
//
// Floor 0 (leaf): above value and wildcard.
package manifest
