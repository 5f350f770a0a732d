// Package verify implements the command `ephor verify`: it finds the signatures of an image, and reports for each whether it satisfies
// an attestor, and if not, why. It uses the same verifier as policies.
//
// Floor 8: imports sigverify, registry and cli/terminal.
package verify
