// Package certificate decodes PEM certificates and certificate requests into JSON values.
//
//	fields, err := certificate.Decode(pem)
//
// FulcioExtension finds the extensions of Fulcio's certificates by the names that policies use.
//
// Parse parses a certificate that anyone may have made, and CheckKey checks a key, so that verifying a signature with it takes a short time.
//
// The package does not verify signatures or dates.
//
// Floor 0 (leaf): imports value.
package certificate
