// Package seal creates and checks message authentication codes that prove the author of data.
//
//	ring, err := seal.NewKeyring(current, older...)
//	mark := ring.Seal("generated", policyKey, rule, uid)   // "v1.⟨key ID⟩.⟨HMAC-SHA256 in lowercase hex⟩"
//	err = ring.Check(mark, "generated", policyKey, rule, uid) // nil, ErrForged, ErrUnknownKey or ErrMalformed
//
// Labels, annotations and the content of objects that users may write prove nothing: every user with the right to update an object can set
// them. A seal is computed with a key that only Ephor's controllers can read, over the whole claim, so others can neither create one nor
// move it to another object.
//
// A seal is bound to a domain, which names the kind of claim: a seal of one domain is never valid in another. The parts are
// length-prefixed, so that no two lists of parts give the same bytes. Comparison takes constant time.
//
// A Key never prints itself: its String, GoString, text and JSON forms hold its ID only. The package reads and writes
// no Secret (package keystore does), and knows nothing of what is sealed.
//
// Floor 0: imports nothing of ours.
package seal
