// Package certificate reads PEM certificates and certificate requests as JSON values.
//
//	fields, err := certificate.Decode(pem)
//
// FulcioExtension finds the extensions of Fulcio's certificates by the names that policies use.
//
// It verifies nothing: neither signatures nor dates.
//
// Floor 0 (leaf): imports value.
package certificate
