package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keeper holds the serving certificate, parsed once for each change of the Secrets. The zero Keeper has none.
type Keeper struct {
	// Name is the name by which clients verify the server (Names.Host); empty if a pair need not have one. It is set before the first Load.
	Name string
	// Published returns the bundles with which clients verify the server; nil if none are known. It is set before the first Load.
	Published func() [][]byte

	current  atomic.Pointer[serving]
	previous atomic.Pointer[retired]

	mu      sync.Mutex
	next    []byte    // a certificate that clients do not trust yet
	seen    time.Time // when the certificate was first seen
	trusted time.Time // when all clients began to trust it; zero while some do not
}

// ErrNotTrusted is the error of Load for a pair that some client does not trust yet; Load should be retried soon.
var ErrNotTrusted = errors.New("the webhook configurations do not trust it yet")

type serving struct {
	cert      *tls.Certificate
	chain     []*x509.Certificate // the leaf first
	roots     []*x509.Certificate
	caName    string
	tlsName   string
	authority *x509.Certificate // the newest certificate in roots
}

// retired is a pair that was served earlier. Other replicas may still serve it for a moment.
type retired struct {
	serving
	at time.Time
}

// retirement is the time for which the authority of a certificate stays in the bundle after this process last served the certificate.
const retirement = 2 * patience

// Load replaces the served pair. A valid previous pair stays in use in four cases: the new pair cannot be read; its own CA did not sign
// it (so a damaged Secret does not stop the server); clients would refuse it, since it names another server or is for another purpose; or they do
// not trust it yet, for up to half a minute.
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
	old := k.current.Load()
	if old != nil && old.verify(now) == nil {
		err := next.verify(now)
		if refused := next.refused(k.Name, now); err == nil && old.refused(k.Name, now) == nil {
			err = refused
		}
		if err != nil {
			return fmt.Errorf("the Secret %s is not used, since the previous certificate is still valid: %w", pair.Name, err)
		}
		if !next.chain[0].Equal(old.chain[0]) && !k.due(next, now) {
			return fmt.Errorf("the Secret %s is not used yet: %w", pair.Name, ErrNotTrusted)
		}
	}
	if old != nil && !old.chain[0].Equal(next.chain[0]) {
		k.previous.Store(&retired{serving: *old, at: now})
	}
	k.current.Store(next)
	return nil
}

// due reports whether a certificate may replace a valid one: all clients have trusted it for a moment, or it has waited long enough.
func (k *Keeper) due(next *serving, now time.Time) bool {
	if k.Published == nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !bytes.Equal(k.next, next.chain[0].Raw) {
		k.next, k.seen, k.trusted = next.chain[0].Raw, now, time.Time{}
	}
	known := false
	for _, bundle := range k.Published() {
		known = true
		if authorities, err := ParseCertificates(bundle); err == nil && verify(next.chain, authorities, now) != nil {
			k.trusted = time.Time{}
			return !within(k.seen, now, patience)
		}
	}
	if k.trusted.IsZero() {
		k.trusted = now
		if k.seen.Equal(now) {
			return true // signed by an earlier authority, as in every ordinary renewal
		}
	}
	return !known || !within(k.trusted, now, settle)
}

// within reports whether less than d has passed since then; it is false if the clock was set back.
func within(then, now time.Time, d time.Duration) bool {
	age := now.Sub(then)
	return age >= 0 && age < d
}

func (s *serving) verify(now time.Time) error { return verify(s.chain, s.roots, now) }

// refused returns why clients that trust the authority and reach the server by the name refuse the certificate; nil if they accept it.
func (s *serving) refused(name string, now time.Time) error {
	if name == "" {
		return nil
	}
	return verifyFor(s.chain, s.roots, now, name, x509.ExtKeyUsageServerAuth)
}

// Refused returns why clients refuse the served certificate; nil if they accept it.
func (k *Keeper) Refused(now time.Time) error {
	s := k.current.Load()
	if s == nil {
		return errors.New("no serving certificate yet")
	}
	return s.refused(k.Name, now)
}

// GetCertificate implements tls.Config.GetCertificate.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := k.current.Load()
	if s == nil {
		return nil, errors.New("no serving certificate yet")
	}
	return s.cert, nil
}

// Verify returns the reason why the certificate cannot be served at now: there is none, it has expired, or the CA did not sign it.
func (k *Keeper) Verify(now time.Time) error {
	s := k.current.Load()
	if s == nil {
		return errors.New("no serving certificate yet")
	}
	return s.verify(now)
}

// Serving returns the served chain, the leaf first; nil if there is none.
func (k *Keeper) Serving() []*x509.Certificate {
	if s := k.current.Load(); s != nil {
		return s.chain
	}
	return nil
}

// Bundle returns the certificates that clients must trust: the text in the Secret of the CA, followed by the authorities of pairs that
// this or another replica still serves, if the text does not cover them. That happens if another controller renews the two Secrets.
func (k *Keeper) Bundle(ca *corev1.Secret, now time.Time) []byte {
	text := Bundle(ca)
	if text == nil {
		return nil
	}
	if s := k.current.Load(); s != nil {
		text = s.trustedIn(text, now)
	}
	if s := k.previous.Load(); s != nil && within(s.at, now, retirement) {
		text = s.trustedIn(text, now)
	}
	return text
}

// trustedIn returns the bundle, extended so that clients trust s.
func (s *serving) trustedIn(bundle []byte, now time.Time) []byte {
	authorities, err := ParseCertificates(bundle)
	if err != nil || verify(s.chain, authorities, now) == nil {
		return bundle
	}
	bundle = bytes.Clone(bundle)
	for _, c := range s.roots {
		if verify(s.chain, []*x509.Certificate{c}, now) == nil {
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
			bundle = append(append(bundle, '\n'), block...)
		}
	}
	return bundle
}
