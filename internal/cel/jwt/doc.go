// Package jwt verifies JSON Web Tokens, for the library jwt of policies in CEL.
//
//	keys, err := jwt.KeySet(answer)              // the keys of a server
//	claims, err := jwt.Verify(token, keys, now)  // claims although the token is not valid
//
// go-jose parses keys and verifies the signatures of public keys. What it allows is restricted here: a public key is never a secret, a key of a
// curve verifies only the algorithm of that curve, published secrets and critical extensions are refused, and the size of keys is bounded.
//
// Floor 0 (leaf): imports value.
package jwt
