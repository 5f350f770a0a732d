package certs

import (
	"crypto/x509"
	"time"
)

// Expiry is the validity of a certificate in use.
type Expiry struct {
	// Secret is the name of the Secret that holds it, Use its purpose: `ca` or `tls`.
	Secret, Use         string
	NotBefore, NotAfter time.Time
}

// Expiries returns the validity of the newest CA certificate and of the serving certificate; none if none is served.
func (k *Keeper) Expiries() []Expiry {
	s := k.current.Load()
	if s == nil {
		return nil
	}
	of := func(secret, use string, c *x509.Certificate) Expiry {
		return Expiry{Secret: secret, Use: use, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
	}
	return []Expiry{of(s.caName, "ca", s.authority), of(s.tlsName, "tls", s.chain[0])}
}

// Ending reports whether at most a tenth of the validity is left. A certificate that we renew gets this old only if the renewal fails;
// the owner must renew the others.
func (e Expiry) Ending(now time.Time) bool {
	return e.NotAfter.Sub(now) <= e.NotAfter.Sub(e.NotBefore)/10
}
