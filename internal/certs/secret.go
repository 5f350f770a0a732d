package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// readSecret reads a pair; the error names what is missing.
func readSecret(s *corev1.Secret) (*Pair, error) {
	if err := readable(s); err != nil {
		return nil, err
	}
	return ParsePair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
}

// readAuthority reads a CA. A CA of another controller may lack its key; it can then verify, but not sign.
func readAuthority(s *corev1.Secret) (*Pair, error) {
	if err := readable(s); err != nil {
		return nil, err
	}
	if managed(s) {
		p, err := ParsePair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
		if err == nil && !signs(p.Newest()) {
			return nil, errors.New("its certificate is not an authority")
		}
		return p, err
	}
	certs, err := ParseCertificates(Bundle(s))
	if err != nil {
		return nil, err
	}
	p := &Pair{Certs: certs}
	if text := s.Data[corev1.TLSPrivateKeyKey]; len(text) > 0 {
		if p.Key, err = parseKey(text); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// signs reports whether a certificate may sign others.
func signs(c *x509.Certificate) bool {
	return c.IsCA && (c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0)
}

func readable(s *corev1.Secret) error {
	switch {
	case s == nil:
		return errors.New("there is no Secret")
	case s.Type != corev1.SecretTypeTLS && managed(s):
		return fmt.Errorf("the Secret has the type %s", s.Type)
	}
	return nil
}

// fixed reports whether the API server refuses an update of the Secret with a pair: its type cannot be changed, or a user made it immutable.
func fixed(s *corev1.Secret) bool {
	return s != nil && (s.Type != corev1.SecretTypeTLS || s.Immutable != nil && *s.Immutable)
}

func managed(s *corev1.Secret) bool { return s.Labels[ManagedLabel] == ManagedValue }

// Bundle returns the certificates that clients need to trust the serving certificate; nil if the Secret has none.
func Bundle(ca *corev1.Secret) []byte {
	if ca == nil {
		return nil
	}
	if b := ca.Data[corev1.TLSCertKey]; len(b) > 0 {
		return b
	}
	return ca.Data["rootCA.crt"]
}

// sameKey reports whether two certificates have the same key, so that each verifies what the other signed.
func sameKey(a, b *x509.Certificate) bool {
	return bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo) && bytes.Equal(a.RawSubject, b.RawSubject)
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	for _, o := range list {
		if o.Equal(c) {
			return true
		}
	}
	return false
}
