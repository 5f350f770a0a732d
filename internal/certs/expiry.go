package certs

import (
	"crypto/x509"
	"time"
)

// Expiry is the life of one certificate that is in use.
type Expiry struct {
	// Secret is the name of the Secret that holds it, Use what it is for: `ca` or `tls`.
	Secret, Use         string
	NotBefore, NotAfter time.Time
}

// Expiries are the lives of the newest CA certificate and of the serving certificate; none when nothing is served.
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

// Ending reports whether a tenth of the life is left, or less. Certificates that we renew never get there unless the
// renewal fails; of the others only their owner can take care.
func (e Expiry) Ending(now time.Time) bool {
	return e.NotAfter.Sub(now) <= e.NotAfter.Sub(e.NotBefore)/10
}
