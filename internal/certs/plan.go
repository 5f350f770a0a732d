package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ManagedLabel marks the Secrets that we may renew; its value is ManagedValue.
const (
	ManagedLabel = "cert.kyverno.io/managed-by"
	ManagedValue = "kyverno"
)

// ErrNotManaged is returned when a certificate has to be renewed that somebody else manages.
var ErrNotManaged = errors.New("tls is not valid but certificates are not managed by kyverno, we can't renew them")

// Config says what the certificates are for.
type Config struct {
	Namespace string
	CASecret  string // name of the Secret of the CA
	TLSSecret string // name of the Secret of the serving certificate
	Names     Names
	Algorithm Algorithm
	// RenewBefore is how long before its end a certificate is renewed.
	RenewBefore time.Duration
}

// State is what was found: the two Secrets, nil where there is none.
type State struct{ CA, TLS *corev1.Secret }

// Plan says what to do. The zero Plan is "nothing".
type Plan struct {
	// RenewCA: issue a CA certificate, with CA.Key when CA is not nil and a new key otherwise; Keep stays in the bundle.
	RenewCA bool
	Keep    []*x509.Certificate
	// RenewTLS: issue a serving certificate.
	RenewTLS bool
	// CA is the authority that was found, nil when it cannot be used.
	CA *Pair
	// ReplaceCA, ReplaceTLS: the Secret is ours but of another type, which cannot be changed; delete it first.
	ReplaceCA, ReplaceTLS bool
	// Reason tells the log why.
	Reason string
}

// Make decides what has to be issued. An error means that nothing can be done without the administrator.
func Make(cfg Config, s State, now time.Time) (Plan, error) {
	var p Plan
	ca, caErr := readSecret(s.CA)
	switch {
	case caErr != nil:
		p.RenewCA, p.Reason = true, "CA: "+caErr.Error()
	case now.Add(cfg.RenewBefore).After(ca.Newest().NotAfter):
		p.RenewCA, p.Reason = true, "CA: the newest certificate ends soon"
	}
	if caErr == nil {
		p.CA = ca
	}
	if p.RenewCA {
		if s.CA != nil && !managed(s.CA) {
			return p, ErrNotManaged
		}
		p.ReplaceCA = s.CA != nil && s.CA.Type != corev1.SecretTypeTLS
		if p.CA != nil && algorithmOf(p.CA.Key) != cfg.Algorithm {
			return p, fmt.Errorf("the CA has a key of algorithm %s, but %s is asked for; delete the Secret %s to change it",
				algorithmOf(p.CA.Key), cfg.Algorithm, cfg.CASecret)
		}
		p.Keep = p.CA.unexpired(now)
	}
	if reason := leafTrouble(cfg, s.TLS, p, now); reason != "" {
		if s.TLS != nil && !managed(s.TLS) {
			return p, ErrNotManaged
		}
		if p.Reason != "" {
			p.Reason += "; "
		}
		p.RenewTLS, p.Reason = true, p.Reason+"TLS: "+reason
		p.ReplaceTLS = s.TLS != nil && s.TLS.Type != corev1.SecretTypeTLS
	}
	return p, nil
}

// leafTrouble tells why the serving certificate has to be renewed; empty when it can stay.
func leafTrouble(cfg Config, secret *corev1.Secret, p Plan, now time.Time) string {
	leaf, err := readSecret(secret)
	if err != nil {
		return err.Error()
	}
	cert := leaf.Certs[0]
	switch {
	case p.CA == nil:
		return "its CA is replaced"
	case now.Add(cfg.RenewBefore).After(cert.NotAfter):
		return "the certificate ends soon"
	case !cfg.Names.answeredBy(cert):
		return "the certificate lacks a name"
	}
	if err := verify(cert, p.CA.Certs, now); err != nil {
		return err.Error()
	}
	return ""
}

// verify checks that cert is signed by one of the authorities, of which it needs one that is valid at now.
func verify(cert *x509.Certificate, authorities []*x509.Certificate, now time.Time) error {
	pool := x509.NewCertPool()
	for _, c := range authorities {
		pool.AddCert(c)
	}
	_, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// readSecret reads a Secret of ours; the error says what is missing.
func readSecret(s *corev1.Secret) (*Pair, error) {
	if s == nil {
		return nil, errors.New("there is no Secret")
	}
	if s.Type != corev1.SecretTypeTLS && managed(s) {
		return nil, fmt.Errorf("the Secret has the type %s", s.Type)
	}
	return ParsePair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
}

func managed(s *corev1.Secret) bool { return s.Labels[ManagedLabel] == ManagedValue }

// Bundle is the text that clients need in order to trust the serving certificate; nil when the Secret has none.
func Bundle(ca *corev1.Secret) []byte {
	if ca == nil {
		return nil
	}
	if b := ca.Data[corev1.TLSCertKey]; len(b) > 0 {
		return b
	}
	return ca.Data["rootCA.crt"]
}
