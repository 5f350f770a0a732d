// Package seal creates and checks message authentication codes that prove the author of data.
//
//	ring, err := seal.NewKeyring(current, older...)
//	mark := ring.Seal("generated", policyKey, rule, uid)   // "v1.⟨key ID⟩.⟨HMAC-SHA256 in lowercase hex⟩"
//	err = ring.Check(mark, "generated", policyKey, rule, uid) // nil, ErrForged, ErrUnknownKey or ErrMalformed
//
// Labels, annotations and the content of objects prove nothing, since every user with the right to update an object can set them. A seal
// is computed over the whole claim with a key that only Ephor's controllers can read, so others can neither create one nor move it to
// another object.
//
// A seal is bound to a domain, which names the kind of claim: a seal of one domain is never valid in another. The parts are
// length-prefixed, so that different lists of parts never give the same bytes. Comparison takes constant time.
//
// A Key never prints itself: its String, GoString, text and JSON forms hold only its ID. The package reads and writes no Secrets (package
// keystore does), and does not interpret the sealed data.
//
// Floor 0: imports nothing of ours.
package seal
