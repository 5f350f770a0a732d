package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keeper holds the serving certificate, parsed once for each change of the Secrets. The zero Keeper has none.
type Keeper struct{ current atomic.Pointer[serving] }

type serving struct {
	cert      *tls.Certificate
	chain     []*x509.Certificate // the leaf first
	roots     []*x509.Certificate
	caName    string
	tlsName   string
	authority *x509.Certificate // the newest of roots
}

// Load takes the pair over. The previous pair stays in use when the new one cannot be read, or when it does not verify
// while the previous one does: whoever damages a Secret does not stop the server.
func (k *Keeper) Load(ca, pair *corev1.Secret) error { return k.load(ca, pair, time.Now()) }

func (k *Keeper) load(ca, pair *corev1.Secret, now time.Time) error {
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
	next := &serving{cert: &cert, roots: roots, caName: ca.Name, tlsName: pair.Name, authority: (&Pair{Certs: roots}).Newest()}
	for _, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("the Secret %s: %w", pair.Name, err)
		}
		next.chain = append(next.chain, c)
	}
	cert.Leaf = next.chain[0]
	if old := k.current.Load(); old != nil && old.verify(now) == nil {
		if err := next.verify(now); err != nil {
			return fmt.Errorf("the Secret %s is not taken over, the previous certificate is still good: %w", pair.Name, err)
		}
	}
	k.current.Store(next)
	return nil
}

func (s *serving) verify(now time.Time) error { return verify(s.chain, s.roots, now) }

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
	return s.verify(now)
}

// Serving is the chain that is served, the leaf first; nil when there is none.
func (k *Keeper) Serving() []*x509.Certificate {
	if s := k.current.Load(); s != nil {
		return s.chain
	}
	return nil
}

// Bundle is what clients have to trust: the text in the Secret of the CA as it is, and after it the authority of the
// certificate that is still served when the new text does not vouch for it. That happens where somebody else renews
// the two Secrets one after the other.
func (k *Keeper) Bundle(ca *corev1.Secret, now time.Time) []byte {
	text := Bundle(ca)
	s := k.current.Load()
	if s == nil || text == nil {
		return text
	}
	authorities, err := ParseCertificates(text)
	if err != nil || verify(s.chain, authorities, now) == nil {
		return text
	}
	for _, c := range s.roots {
		if verify(s.chain, []*x509.Certificate{c}, now) == nil {
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
			text = append(append(append([]byte{}, text...), '\n'), block...)
		}
	}
	return text
}
