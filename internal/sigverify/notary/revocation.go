package notary

import (
	"container/list"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/notaryproject/notation-core-go/revocation"
	"github.com/notaryproject/notation-core-go/revocation/crl"
	"github.com/notaryproject/notation-core-go/revocation/ocsp"
	"github.com/notaryproject/notation-core-go/revocation/purpose"
	"github.com/notaryproject/notation-core-go/revocation/result"
	"golang.org/x/sync/singleflight"
)

// Times and limits for revocation queries.
const (
	timeoutOCSP = 2 * time.Second
	timeoutCRL  = 5 * time.Second
	longest     = 8 * time.Second // for all queries about one chain
	fresh       = 10 * time.Minute
	usable      = time.Hour // how long the last answer is used if the responder does not answer
	pause       = 5 * time.Second
	maxAnswers  = 1024
	maxCRL      = 4 << 20
	maxLists    = 16
	maxBytes    = 8 << 20 // the total size of cached lists
	maxHops     = 3
)

// validators query whether chains of certificates are revoked, for one kind of policies.
type validators struct{ signing, stamping revocation.Validator }

func newValidators(o Options, confined bool) (*validators, error) {
	if o.SkipRevocation {
		return &validators{unasked{}, unasked{}}, nil
	}
	transport := limited{o.HTTP, nil}
	if confined {
		transport.permit = o.Permit
	}
	client := func(timeout time.Duration) *http.Client {
		return &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxHops {
				return errors.New("too many redirects")
			}
			return nil
		}}
	}
	download, err := crl.NewHTTPFetcher(client(timeoutCRL))
	if err != nil {
		return nil, err
	}
	fetcher := &lists{next: download, now: o.Now}
	out := &validators{}
	for to, kind := range map[*revocation.Validator]purpose.Purpose{&out.signing: purpose.CodeSigning, &out.stamping: purpose.Timestamping} {
		asking, err := revocation.NewWithOptions(revocation.Options{OCSPHTTPClient: client(timeoutOCSP), CRLFetcher: fetcher, CertChainPurpose: kind})
		if err != nil {
			return nil, err
		}
		*to = &remembering{next: asking, now: o.Now, answers: map[[sha256.Size]byte]*status{}}
	}
	return out, nil
}

// unasked treats no certificate as revoked.
type unasked struct{}

// ValidateContext implements revocation.Validator.
func (unasked) ValidateContext(_ context.Context, o revocation.ValidateContextOptions) ([]*result.CertRevocationResult, error) {
	out := make([]*result.CertRevocationResult, len(o.CertChain))
	for i := range out {
		out[i] = &result.CertRevocationResult{Result: result.ResultNonRevokable, ServerResults: []*result.ServerResult{{Result: result.ResultNonRevokable}}}
	}
	return out, nil
}

// remembering caches revocation queries: it queries each chain at intervals, and only once at a time. If a responder does not answer, its
// last answer stays in use for an hour.
type remembering struct {
	next    revocation.Validator
	now     func() time.Time
	flights singleflight.Group
	mu      sync.Mutex
	answers map[[sha256.Size]byte]*status
}

// status holds the answers about a chain.
type status struct {
	known   []*result.CertRevocationResult // the last answer without unknown results; nil if there is none
	at      time.Time
	unknown []*result.CertRevocationResult // the failed answer after it
	failed  time.Time
}

// ValidateContext implements revocation.Validator.
func (r *remembering) ValidateContext(ctx context.Context, o revocation.ValidateContextOptions) ([]*result.CertRevocationResult, error) {
	hash := sha256.New()
	for _, c := range o.CertChain {
		fmt.Fprintf(hash, "%d\n", len(c.Raw))
		hash.Write(c.Raw)
	}
	fmt.Fprint(hash, o.AuthenticSigningTime.UnixNano())
	key := [sha256.Size]byte(hash.Sum(nil))
	if known := r.answer(key); known != nil {
		return known, nil
	}
	answers := r.flights.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest) // other callers wait for the answer, too
		defer cancel()
		found, err := guarded(ctx, r.next, o)
		if err != nil {
			return nil, err
		}
		return r.keep(key, found), nil
	})
	select {
	case a := <-answers:
		if a.Err != nil {
			return nil, a.Err
		}
		return a.Val.([]*result.CertRevocationResult), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// guarded converts a panic caused by external data to an error.
func guarded(ctx context.Context, v revocation.Validator, o revocation.ValidateContextOptions) (out []*result.CertRevocationResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return v.ValidateContext(context.WithValue(ctx, chainKey{}, o.CertChain), o)
}

// answer returns the cached answer if no query is needed, and nil otherwise.
func (r *remembering) answer(key [sha256.Size]byte) []*result.CertRevocationResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.answers[key]
	switch now := r.now(); {
	case s == nil:
		return nil
	case s.known != nil && now.Sub(s.at) < fresh:
		return s.known
	case s.unknown != nil && now.Sub(s.failed) < pause:
		return s.last(now)
	}
	return nil
}

// last returns the last answer that is still usable after a failure.
func (s *status) last(now time.Time) []*result.CertRevocationResult {
	if s.known != nil && now.Sub(s.at) < usable {
		return s.known
	}
	return s.unknown
}

// keep caches an answer, and returns the answer to use.
func (r *remembering) keep(key [sha256.Size]byte, found []*result.CertRevocationResult) []*result.CertRevocationResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, s := r.now(), r.answers[key]
	if s == nil {
		if len(r.answers) >= maxAnswers {
			r.evict()
		}
		s = &status{}
		r.answers[key] = s
	}
	if why(found) != nil {
		s.unknown, s.failed = found, now
		return s.last(now)
	}
	s.known, s.at, s.unknown = found, now, nil
	return found
}

// evict removes the oldest answer.
func (r *remembering) evict() {
	var oldest [sha256.Size]byte
	var at time.Time
	for key, s := range r.answers {
		last := s.at
		if s.failed.After(last) {
			last = s.failed
		}
		if at.IsZero() || last.Before(at) {
			oldest, at = key, last
		}
	}
	delete(r.answers, oldest)
}

// why returns the reason why it is unknown whether a chain is revoked, or nil if it is known. A responder that does not know a certificate
// counts as an answer.
func why(chain []*result.CertRevocationResult) error {
	var out error
	for _, c := range chain {
		if c == nil {
			return errors.New("there is no answer about a certificate")
		}
		if c.Result == result.ResultRevoked {
			return nil
		}
		if c.Result != result.ResultUnknown {
			continue
		}
		for _, s := range c.ServerResults {
			if s.Error != nil && !errors.As(s.Error, new(ocsp.UnknownStatusError)) {
				out = s.Error
			}
		}
	}
	return out
}

// recorded collects the failures of the queries in one verification.
type recorded struct {
	*validators
	mu  sync.Mutex
	err error
}

func (v *validators) recording() *recorded { return &recorded{validators: v} }

// failure returns the reason why a query failed, or nil if all succeeded.
func (r *recorded) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *recorded) codeSigning() revocation.Validator  { return recorder{r, r.signing} }
func (r *recorded) timestamping() revocation.Validator { return recorder{r, r.stamping} }

type recorder struct {
	to   *recorded
	next revocation.Validator
}

// ValidateContext implements revocation.Validator.
func (r recorder) ValidateContext(ctx context.Context, o revocation.ValidateContextOptions) ([]*result.CertRevocationResult, error) {
	found, err := r.next.ValidateContext(ctx, o)
	unknown := why(found)
	if chain := (result.InvalidChainError{}); err != nil && !errors.As(err, &chain) {
		unknown = err
	}
	if unknown != nil {
		r.to.mu.Lock()
		r.to.err = unknown
		r.to.mu.Unlock()
	}
	return found, err
}

// chainKey is the context key for the chain of certificates.
type chainKey struct{}

// lists fetches revocation lists, and caches those that a certificate of the chain signed. If a list cannot be fetched again, it stays
// in use until its next update.
type lists struct {
	next crl.Fetcher
	now  func() time.Time

	mu    sync.Mutex
	known map[string]*list.Element // the elements are *revoked
	order list.List                // the most recently used list first
	bytes int
}

type revoked struct {
	url    string
	bundle *crl.Bundle
	at     time.Time
	bytes  int
}

// Fetch implements crl.Fetcher.
func (l *lists) Fetch(ctx context.Context, url string) (*crl.Bundle, error) {
	now := l.now()
	old := l.get(url)
	if old != nil && now.Sub(old.at) < fresh && effective(old.bundle, now) {
		return old.bundle, nil
	}
	found, err := l.next.Fetch(ctx, url)
	if err != nil {
		if old != nil && effective(old.bundle, now) {
			return old.bundle, nil
		}
		return nil, err
	}
	chain, _ := ctx.Value(chainKey{}).([]*x509.Certificate)
	if signed(found, chain) {
		l.put(&revoked{url: url, bundle: found, at: now, bytes: size(found)})
	}
	return found, nil
}

func effective(b *crl.Bundle, now time.Time) bool {
	return now.Before(b.BaseCRL.NextUpdate) && (b.DeltaCRL == nil || now.Before(b.DeltaCRL.NextUpdate))
}

func size(b *crl.Bundle) int {
	n := len(b.BaseCRL.Raw)
	if b.DeltaCRL != nil {
		n += len(b.DeltaCRL.Raw)
	}
	return n
}

// signed reports whether a certificate of the chain signed all parts of the bundle.
func signed(b *crl.Bundle, chain []*x509.Certificate) bool {
	for _, c := range chain {
		if b.BaseCRL.CheckSignatureFrom(c) == nil {
			return b.DeltaCRL == nil || b.DeltaCRL.CheckSignatureFrom(c) == nil
		}
	}
	return false
}

func (l *lists) get(url string) *revoked {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.known[url]
	if e == nil {
		return nil
	}
	l.order.MoveToFront(e)
	return e.Value.(*revoked)
}

func (l *lists) put(r *revoked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]*list.Element{}
	}
	if e := l.known[r.url]; e != nil {
		l.remove(e)
	}
	l.known[r.url] = l.order.PushFront(r)
	l.bytes += r.bytes
	for l.order.Len() > maxLists || l.bytes > maxBytes {
		l.remove(l.order.Back())
	}
}

func (l *lists) remove(e *list.Element) {
	r := e.Value.(*revoked)
	l.order.Remove(e)
	delete(l.known, r.url)
	l.bytes -= r.bytes
}

// limited is a transport that limits the size of responses and sends only permitted requests.
type limited struct {
	next   http.RoundTripper
	permit func(*url.URL) error // nil permits all
}

// RoundTrip implements http.RoundTripper.
func (t limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.permit != nil {
		if err := t.permit(req.URL); err != nil {
			return nil, err
		}
	}
	answer, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	answer.Body = &limitedBody{ReadCloser: answer.Body}
	return answer, nil
}

type limitedBody struct {
	io.ReadCloser
	read int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); b.read > maxCRL {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxCRL)
	}
	return n, err
}
