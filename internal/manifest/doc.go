// Package manifest reads the signatures that a resource carries in its annotations and compares the resource with the
// manifest that was signed.
//
//	claim, err := manifest.Read(object, "cosign.sigstore.dev")
//	signer, err := world.Signatures.Blob(ctx, …)      // claim.Message, claim.Signatures
//	differences, err := claim.Compare(object, domain, ignored)
//
// Only what was signed is ever parsed: Compare is for claims whose signature holds. A difference that the API server makes
// by itself is none: metadata that it sets, and fields that it fills with their defaults (defaults.txt). A field that has
// another value than its default was added by a user.
//
// The package checks no signature and sends no requests: package sigverify does, as for images.
//
// Floor 0 (leaf): above value and wildcard.
package manifest
