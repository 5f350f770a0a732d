// Package seal makes and checks message authentication codes that prove who wrote something.
//
//	ring, err := seal.NewKeyring(current, older...)
//	mark := ring.Seal("generated", policyKey, rule, uid)   // "v1.⟨key ID⟩.⟨HMAC-SHA256 in lowercase hex⟩"
//	err = ring.Check(mark, "generated", policyKey, rule, uid) // nil, ErrForged, ErrUnknownKey or ErrMalformed
//
// Labels, annotations and the content of objects that users may write prove nothing: every user with the right to update an
// object can set them. A seal is computed with a key that only Ephor's controllers can read, over everything that the
// claim says, so it cannot be made by others, nor be moved from one object to another.
//
// A seal is bound to a domain, which names what kind of claim it is: a seal of one domain never passes in another. The
// parts are length-prefixed, so that no two lists of parts give the same bytes. Comparison takes constant time.
//
// A Key never prints itself: its String, GoString, text and JSON forms hold its ID only. The package reads and writes
// no Secret (package keystore does), and knows nothing of what is sealed.
//
// Floor 0: imports nothing of ours.
package seal
