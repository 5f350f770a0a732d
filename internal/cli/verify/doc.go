// Package verify is the command `verify`: it finds the signatures of an image, and says of each whether it satisfies an attestor and why
// not. It decides with the verifier that policies decide with.
//
// Floor 8: imports sigverify, registry and cli/terminal.
package verify
