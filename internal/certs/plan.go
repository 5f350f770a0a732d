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

// ErrNotManaged is returned when a certificate that another controller manages has to be renewed.
var ErrNotManaged = errors.New("tls is not valid but certificates are not managed by kyverno, we can't renew them")

// Config describes the certificates to maintain.
type Config struct {
	Namespace string
	CASecret  string // name of the Secret of the CA
	TLSSecret string // name of the Secret of the serving certificate
	Names     Names
	// Client: the certificate is that of a client, not of a server.
	Client    bool
	Algorithm Algorithm
	// RenewBefore is the minimum time before its expiry at which a certificate is renewed. It is raised to a tenth of the validity, because
	// warnings begin then, and limited to half of it, so that a renewal helps.
	RenewBefore time.Duration
}

// State is the current state.
type State struct {
	// CA and TLS are the two Secrets, nil if missing.
	CA, TLS *corev1.Secret
	// Serving is the chain that the servers currently serve, regardless of the Secrets; nil if they serve none.
	Serving []*x509.Certificate
	// Published are the bundles with which clients verify the servers, one for each webhook configuration.
	Published [][]byte
}

// Plan describes the next actions; the zero Plan has none.
type Plan struct {
	// WriteCA: store an authority. With RenewCA it gets a new certificate, made with the key of CA, or with a new key if NewKey is set;
	// without RenewCA only the bundle is tidied.
	WriteCA, RenewCA, NewKey bool
	// CA is the existing authority, nil if it cannot be used; Keep are the other certificates of the bundle.
	CA   *Pair
	Keep []*x509.Certificate
	// RenewTLS: issue a serving certificate. Wait: it has to be issued, but some client does not trust the authority yet and would reject
	// it.
	RenewTLS, Wait bool
	// ReplaceCA, ReplaceTLS: the Secret has to be written, but the API server would refuse an update; delete it first.
	ReplaceCA, ReplaceTLS bool
	// Reason explains the plan in the log.
	Reason string
}

// orphanTime is how long a CA certificate stays in the bundle after its key is lost and no certificate in use depends on it.
const orphanTime = time.Hour

// Make returns the next actions. An error means that an administrator must act first.
func Make(cfg Config, s State, now time.Time) (Plan, error) {
	var p Plan
	ca, caErr := readAuthority(s.CA)
	switch {
	case caErr == nil && s.CA != nil && !managed(s.CA):
		if ca.Newest().NotAfter.Before(now) {
			return p, fmt.Errorf("the CA in the Secret %s has ended: %w", cfg.CASecret, ErrNotManaged)
		}
	case caErr != nil && s.CA != nil && !managed(s.CA):
		return p, fmt.Errorf("the Secret %s: %w: %w", cfg.CASecret, caErr, ErrNotManaged)
	case caErr != nil && s.TLS != nil && !managed(s.TLS):
		// Our authority would not verify a certificate that another controller manages.
		return p, fmt.Errorf("the Secret %s: %w: %w", cfg.CASecret, caErr, ErrNotManaged)
	case caErr != nil:
		p.WriteCA, p.RenewCA, p.NewKey, p.Reason = true, true, true, "CA: "+caErr.Error()
		p.Keep = trustedIssuers(s, now)
	case cfg.endsSoon(ca.Newest(), now), now.Before(ca.Newest().NotBefore):
		p.WriteCA, p.RenewCA = true, true
		p.Reason = fmt.Sprintf("CA: the newest certificate is valid from %s to %s", ca.Newest().NotBefore.Format(time.RFC3339), ca.Newest().NotAfter.Format(time.RFC3339))
		p.NewKey = algorithmOf(ca.Key) != cfg.Algorithm
		p.Keep = ca.unexpired(now)
	}
	if caErr == nil {
		p.CA = ca
	}
	if err := p.leaf(cfg, s, now); err != nil {
		return Plan{}, err
	}
	if !p.WriteCA && s.CA != nil && managed(s.CA) && p.CA != nil {
		p.tidy(s, now)
	}
	p.ReplaceCA, p.ReplaceTLS = p.WriteCA && fixed(s.CA), (p.RenewTLS || p.Wait) && fixed(s.TLS)
	return p, nil
}

// leaf decides whether to issue a serving certificate.
func (p *Plan) leaf(cfg Config, s State, now time.Time) error {
	reason, valid := cfg.renewalReason(s.TLS, p.CA, now)
	if reason == "" {
		return nil
	}
	if s.TLS != nil && !managed(s.TLS) {
		if valid {
			return nil // its owner is warned that it expires soon
		}
		return fmt.Errorf("the Secret %s: %s: %w", cfg.TLSSecret, reason, ErrNotManaged)
	}
	if p.CA != nil && p.CA.Key == nil {
		return fmt.Errorf("the Secret %s: %s, and the Secret %s holds no key that could sign another one", cfg.TLSSecret, reason, cfg.CASecret)
	}
	if p.Reason != "" {
		p.Reason += "; "
	}
	p.Reason += "TLS: " + reason
	for _, bundle := range s.Published {
		if p.NewKey || !trusts(bundle, p.CA, now) {
			p.Wait = true
			return nil
		}
	}
	p.RenewTLS = true
	return nil
}

// tidy removes from the bundle expired certificates, and those whose key is lost and that no certificate in use depends on.
func (p *Plan) tidy(s State, now time.Time) {
	leaf, err := readSecret(s.TLS)
	if err != nil || p.RenewTLS || p.Wait {
		return
	}
	own, keep := p.CA.Newest(), []*x509.Certificate{}
	settled := now.Sub(leaf.Certs[0].NotBefore) > backdated+orphanTime && verify(leaf.Certs, []*x509.Certificate{own}, now) == nil
	for _, c := range p.CA.unexpired(now) {
		if !c.Equal(own) && (!settled || sameKey(c, own)) {
			keep = append(keep, c)
		}
	}
	if len(keep)+1 < len(p.CA.Certs) {
		p.WriteCA, p.Keep, p.Reason = true, keep, "CA: the bundle holds certificates that nothing needs any more"
	}
}

// endsSoon reports whether it is time to renew the certificate.
func (cfg Config) endsSoon(c *x509.Certificate, now time.Time) bool {
	return now.Add(cfg.before(c)).After(c.NotAfter)
}

func (cfg Config) before(c *x509.Certificate) time.Duration {
	life := c.NotAfter.Sub(c.NotBefore)
	return min(max(cfg.RenewBefore, life/10+time.Hour), life/2)
}

// renewalReason returns why the serving certificate must be renewed, empty if it need not be, and whether it can still be served.
func (cfg Config) renewalReason(secret *corev1.Secret, ca *Pair, now time.Time) (reason string, valid bool) {
	leaf, err := readSecret(secret)
	if err != nil {
		return err.Error(), false
	}
	if ca == nil {
		return "its CA is replaced", false
	}
	if err := verify(leaf.Certs, ca.Certs, now); err != nil {
		return err.Error(), false
	}
	cert := leaf.Certs[0]
	switch {
	case !cfg.Names.answeredBy(cert):
		return "the certificate lacks a name", true
	case cfg.endsSoon(cert, now):
		return "the certificate ends " + cert.NotAfter.Format(time.RFC3339), true
	}
	if ca.Key != nil && verify(leaf.Certs, []*x509.Certificate{ca.Newest()}, now) != nil {
		return "another authority signed it", true
	}
	return "", true
}

// trustedIssuers returns the published authorities that verify the served chain: they stay in the bundle during a change of authority. It
// adds no others, since a client that can write webhook configurations could otherwise add an authority.
func trustedIssuers(s State, now time.Time) []*x509.Certificate {
	chain := s.Serving
	if chain == nil {
		if leaf, err := readSecret(s.TLS); err == nil {
			chain = leaf.Certs
		}
	}
	if chain == nil {
		return nil
	}
	var out []*x509.Certificate
	for _, bundle := range s.Published {
		authorities, err := ParseCertificates(bundle)
		if err != nil {
			continue
		}
		for _, c := range authorities {
			if c.IsCA && verify(chain, []*x509.Certificate{c}, now) == nil && !contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// trusts reports whether a client with the bundle accepts certificates that the newest certificate of ca signs.
func trusts(bundle []byte, ca *Pair, now time.Time) bool {
	if ca == nil {
		return false
	}
	authorities, err := ParseCertificates(bundle)
	if err != nil {
		return true // a client without authorities trusts no server yet
	}
	for _, c := range authorities {
		if sameKey(c, ca.Newest()) && now.Before(c.NotAfter) {
			return true
		}
	}
	return false
}

// verify checks that one of the authorities, valid at now, signed the first certificate of chain; the rest of the chain may be
// intermediates.
func verify(chain, authorities []*x509.Certificate, now time.Time) error {
	return verifyFor(chain, authorities, now, "", x509.ExtKeyUsageAny)
}

// verifyFor is verify for a certificate that has to have a name, unless it is empty, and a purpose.
func verifyFor(chain, authorities []*x509.Certificate, now time.Time, name string, purpose x509.ExtKeyUsage) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range authorities {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		DNSName: name, Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{purpose},
	})
	return err
}
