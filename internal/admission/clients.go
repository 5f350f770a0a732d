package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ephor.invalid/ephor/internal/http1"
)

// Clients decides which clients the server answers.
type Clients struct {
	// Authorities returns the authorities that sign the certificates of clients, for every handshake. nil: every client is answered.
	Authorities func() (*x509.CertPool, error)
	// Names are the common names of the certificates that are accepted; empty for all.
	Names []string
	// MinVersion is the lowest TLS version; 0 for 1.3.
	MinVersion uint16
	// QPS bounds the reviews per second from one address, Burst the simultaneous ones; 0 for no limit. Clients with a certificate or a
	// valid token are not limited: an API server must never wait because of its address.
	QPS   float64
	Burst int
	// Tokens verifies the bearer tokens of clients; nil: none is required. With Authorities, both proofs are.
	Tokens *Tokens
}

// serverTLS returns the configuration of the listener.
func (c *Clients) serverTLS(getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	base := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: getCertificate,
		CipherSuites: []uint16{ // of TLS 1.2; those of 1.3 are not configurable
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,
		},
		// HTTP/2 is disabled: reviews are small and short, and its frames and windows cost both sides more than they save. It also prevents
		// endless streams on one connection (CVE-2023-44487).
		NextProtos: []string{"http/1.1"},
	}
	if c.MinVersion != 0 {
		base.MinVersion = c.MinVersion
	}
	if c.Authorities == nil {
		return base
	}
	// A certificate is requested and verified, but not required: the kubelet's probes have none, and each handler decides what a client
	// without one may do.
	base.ClientAuth = tls.VerifyClientCertIfGiven
	base.ClientCAs = x509.NewCertPool()
	// A ticket from an earlier handshake would bypass the removal of an authority.
	base.SessionTicketsDisabled = true
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := c.Authorities()
		if err != nil {
			return nil, err
		}
		own := base.Clone()
		own.ClientCAs, own.GetConfigForClient = pool, nil
		return own, nil
	}
	return base
}

// Errors for clients that the server does not answer.
var (
	errNoCertificate = errors.New("only clients with a certificate of the API server's authority are answered")
	errOtherName     = errors.New("the client certificate is not that of an API server")
	errTooMany       = errors.New("too many reviews from this address")
)

// gate applies Clients to requests.
type gate struct {
	Clients
	limits limiter
}

// check returns the owner of the request's token, or the error and the HTTP status for a request that the server does not answer. Without
// Tokens the owner may send every review.
func (g *gate) check(r *http.Request) (owner TokenOwner, status int, err error) {
	if g.Authorities != nil {
		switch {
		case r.TLS == nil || len(r.TLS.VerifiedChains) == 0:
			return owner, http.StatusUnauthorized, errNoCertificate
		case len(g.Names) > 0 && !slices.Contains(g.Names, r.TLS.PeerCertificates[0].Subject.CommonName):
			return owner, http.StatusForbidden, errOtherName
		}
	}
	if g.Tokens != nil {
		return g.Tokens.owner(r)
	}
	if g.Authorities == nil && g.QPS > 0 && !g.limits.allow(r.RemoteAddr, g.QPS, g.Burst) {
		return owner, http.StatusTooManyRequests, errTooMany
	}
	return owner, 0, nil
}

// limiter counts the requests of each source.
type limiter struct {
	mu      sync.Mutex
	sources map[netip.Prefix]*source
}

type source struct {
	bucket *rate.Limiter
	seen   time.Time
}

// maxSources bounds the number of remembered sources; forgotten is how long a source must send nothing before it is dropped.
const (
	maxSources = 4096
	forgotten  = time.Minute
)

// allow takes one request from the bucket of the source.
func (l *limiter) allow(address string, qps float64, burst int) bool {
	now, from := time.Now(), http1.Source(address)
	l.mu.Lock()
	s := l.sources[from]
	if s == nil {
		if len(l.sources) >= maxSources {
			for k, old := range l.sources {
				if now.Sub(old.seen) > forgotten {
					delete(l.sources, k)
				}
			}
		}
		if len(l.sources) >= maxSources {
			from = netip.Prefix{} // with so many sources, the others share one bucket
			s = l.sources[from]
		}
		if s == nil {
			if l.sources == nil {
				l.sources = map[netip.Prefix]*source{}
			}
			s = &source{bucket: rate.NewLimiter(rate.Limit(qps), burst)}
			l.sources[from] = s
		}
	}
	s.seen = now
	l.mu.Unlock()
	return s.bucket.AllowN(now, 1)
}

// Bodies longer than smallBody share largeBodies bytes of memory, so that a client that may send reviews cannot fill the memory with a few
// hundred of them. Ordinary objects are far smaller.
const (
	smallBody   = 128 << 10
	largeBodies = 64 << 20
	// largeBodiesOfOne is the part of largeBodies that the reviews of one namespace hold at most while they are evaluated: a tenant whose images lie
	// in a registry that does not answer leaves room for the large objects of others.
	largeBodiesOfOne = largeBodies / 2
)

// reserve waits until there is room for a large body of n bytes, while ctx allows. release frees the room.
func (s *Server) reserve(ctx context.Context, n int64) (release func(), err error) {
	if err := s.large.Acquire(ctx, n); err != nil {
		return nil, errors.New("too many large reviews at once")
	}
	return func() { s.large.Release(n) }, nil
}

// largeReviews counts the bytes of the large reviews that are evaluated, by namespace.
type largeReviews struct {
	mu   sync.Mutex
	held map[string]int
}

// hold counts a review of n bytes, unless too many of its namespace are evaluated. release ends it.
func (l *largeReviews) hold(namespace string, n int) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[namespace]+n > largeBodiesOfOne {
		return nil, fmt.Errorf("too many large reviews of namespace %q at once", namespace)
	}
	if l.held == nil {
		l.held = map[string]int{}
	}
	l.held[namespace] += n
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[namespace] -= n; l.held[namespace] == 0 {
			delete(l.held, namespace)
		}
	}, nil
}
