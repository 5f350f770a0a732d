// Package certificate reads PEM certificates and certificate requests as JSON values.
//
//	fields, err := certificate.Decode(pem)
//
// It verifies nothing: neither signatures nor dates.
//
// Floor 0 (leaf): imports value.
package certificate
