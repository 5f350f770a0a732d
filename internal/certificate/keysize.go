package certificate

import (
	"crypto/rsa"
	"crypto/x509"
	"fmt"
)

// maxRSA is the size in bits of the largest RSA key that is accepted, the same as in Go's crypto/tls. A signature is verified in a time that grows
// with the square of the size: one with a key of 760,000 bits, which fits into 100 kB, took two minutes. Nothing interrupts it.
const maxRSA = 8192

// CheckKey returns an error for a public key with which no signature may be verified, since that takes too long.
func CheckKey(key any) error {
	if k, ok := key.(*rsa.PublicKey); ok && k.N.BitLen() > maxRSA {
		return fmt.Errorf("an RSA key of %d bits is not accepted: at most %d are", k.N.BitLen(), maxRSA)
	}
	return nil
}

// Parse parses a certificate that anyone may have made. The error may be that of CheckKey.
func Parse(der []byte) (*x509.Certificate, error) {
	c, err := x509.ParseCertificate(der)
	if err == nil {
		err = CheckKey(c.PublicKey)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
