// Package manifest reads the signatures that a resource carries in its annotations and compares the resource with the
// manifest that was signed.
//
//	claim, err := manifest.Read(object, "cosign.sigstore.dev")
//	key, err := manifest.ParseKey(pem)
//	if claim.SignedBy(key, "sha256") {
//		differences, err := claim.Compare(object, ignored)
//	}
//
// Only what was signed is ever parsed: Compare is for claims whose signature holds. A difference that the API server makes
// by itself is none: metadata that it sets, and fields that it fills with their defaults (defaults.txt). A field that has
// another value than its default was added by a user.
//
// The package sends no requests: keys are given, and neither registries nor transparency logs nor certificate authorities are
// known here.
//
// Floor 0 (leaf): above value and wildcard.
package manifest
