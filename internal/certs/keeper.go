package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keeper holds the serving certificate, parsed once for each change of the Secrets. The zero Keeper has none.
type Keeper struct{ current atomic.Pointer[serving] }

type serving struct {
	cert  *tls.Certificate
	leaf  *x509.Certificate
	roots []*x509.Certificate
}

// Load takes the pair over. The previous pair stays in use when the new one cannot be read.
func (k *Keeper) Load(ca, pair *corev1.Secret) error {
	if ca == nil || pair == nil {
		return errors.New("the Secrets of the certificates do not exist yet")
	}
	roots, err := ParseCertificates(Bundle(ca))
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", ca.Name, err)
	}
	cert, err := tls.X509KeyPair(pair.Data[corev1.TLSCertKey], pair.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", pair.Name, err)
	}
	leaf := cert.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return fmt.Errorf("the Secret %s: %w", pair.Name, err)
		}
		cert.Leaf = leaf
	}
	k.current.Store(&serving{cert: &cert, leaf: leaf, roots: roots})
	return nil
}

// GetCertificate is for tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := k.current.Load()
	if s == nil {
		return nil, errors.New("no serving certificate yet")
	}
	return s.cert, nil
}

// Verify tells why the certificate cannot be served at now: there is none, it has ended, or the CA does not vouch for it.
func (k *Keeper) Verify(now time.Time) error {
	s := k.current.Load()
	if s == nil {
		return errors.New("no serving certificate yet")
	}
	return verify(s.leaf, s.roots, now)
}
