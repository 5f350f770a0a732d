package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Algorithm is a key algorithm.
type Algorithm string

// The algorithms that --tlsKeyAlgorithm offers: RSA with 2048 bits, ECDSA on P-256, Ed25519.
const (
	RSA     Algorithm = "RSA"
	ECDSA   Algorithm = "ECDSA"
	Ed25519 Algorithm = "Ed25519"
)

// ParseAlgorithm parses the name of an algorithm, ignoring case.
func ParseAlgorithm(s string) (Algorithm, error) {
	for _, a := range []Algorithm{RSA, ECDSA, Ed25519} {
		if strings.EqualFold(s, string(a)) {
			return a, nil
		}
	}
	return "", fmt.Errorf("unknown key algorithm %q: use RSA, ECDSA or Ed25519", s)
}

// algorithmOf names the algorithm of a key; empty for an algorithm that we never use.
func algorithmOf(key crypto.Signer) Algorithm {
	switch key.(type) {
	case *rsa.PrivateKey:
		return RSA
	case *ecdsa.PrivateKey:
		return ECDSA
	case ed25519.PrivateKey:
		return Ed25519
	}
	return ""
}

// Pair is the content of a TLS Secret: certificates, the newest first, and the key of the newest.
type Pair struct {
	Certs []*x509.Certificate
	Key   crypto.Signer
}

// Newest returns the certificate that signs and serves: the first one of the key. Without a key it is the one that expires last. The expiry
// alone is not sufficient, since an older certificate may expire later if the clock was set back.
func (p *Pair) Newest() *x509.Certificate {
	if p.Key != nil {
		for _, c := range p.Certs {
			if own, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && own.Equal(p.Key.Public()) {
				return c
			}
		}
	}
	return slices.MaxFunc(p.Certs, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// unexpired returns the certificates that are still valid at t.
func (p *Pair) unexpired(t time.Time) []*x509.Certificate {
	if p == nil {
		return nil
	}
	var out []*x509.Certificate
	for _, c := range p.Certs {
		if t.Before(c.NotAfter) {
			out = append(out, c)
		}
	}
	return out
}

// ParsePair parses tls.crt (one or several certificates) and tls.key in PEM.
func ParsePair(certPEM, keyPEM []byte) (*Pair, error) {
	certs, err := ParseCertificates(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	p := &Pair{Certs: certs, Key: key}
	if own, ok := p.Newest().PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(key.Public()) {
		return nil, errors.New("no certificate matches the key")
	}
	return p, nil
}

// ParseCertificates parses all certificates in a PEM text; a text without certificates is an error.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate cannot be read: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate in PEM form")
	}
	return out, nil
}

// parseKey parses PKCS#8 (which we write), SEC 1 and PKCS#1.
func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no private key in PEM form")
	}
	if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the private key cannot be read: %w", err)
	}
	signer, ok := k.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the private key is a %T, which cannot sign", k)
	}
	return signer, nil
}

// Encode returns tls.crt and tls.key in PEM.
func (p *Pair) Encode() (certPEM, keyPEM []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, c := range p.Certs {
		certPEM = append(certPEM, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return certPEM, keyPEM, nil
}
