package notary

import (
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

	"ephor.invalid/ephor/internal/fetch"
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
	fetcher := newLists(download, o.Now)
	out := &validators{}
	for to, kind := range map[*revocation.Validator]purpose.Purpose{&out.signing: purpose.CodeSigning, &out.stamping: purpose.Timestamping} {
		asking, err := revocation.NewWithOptions(revocation.Options{OCSPHTTPClient: client(timeoutOCSP), CRLFetcher: fetcher, CertChainPurpose: kind})
		if err != nil {
			return nil, err
		}
		*to = newRemembering(asking, o.Now)
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
	answers fetch.Answers[[sha256.Size]byte, []*result.CertRevocationResult]
}

func newRemembering(next revocation.Validator, now func() time.Time) *remembering {
	return &remembering{next, fetch.Answers[[sha256.Size]byte, []*result.CertRevocationResult]{Now: now, Timeout: longest, Retry: pause, Usable: usable, Entries: maxAnswers}}
}

// unknownError is the error for results of which some are unknown.
type unknownError struct {
	found []*result.CertRevocationResult
}

func (*unknownError) Error() string { return "it is unknown whether a certificate is revoked" }

// ValidateContext implements revocation.Validator.
func (r *remembering) ValidateContext(ctx context.Context, o revocation.ValidateContextOptions) ([]*result.CertRevocationResult, error) {
	hash := sha256.New()
	for _, c := range o.CertChain {
		fmt.Fprintf(hash, "%d\n", len(c.Raw))
		hash.Write(c.Raw)
	}
	fmt.Fprint(hash, o.AuthenticSigningTime.UnixNano())
	found, err := r.answers.Get(ctx, [sha256.Size]byte(hash.Sum(nil)), func(ctx context.Context) ([]*result.CertRevocationResult, time.Time, error) {
		found, err := r.next.ValidateContext(context.WithValue(ctx, chainKey{}, o.CertChain), o)
		if err == nil && why(found) != nil {
			err = &unknownError{found}
		}
		return found, r.answers.Now().Add(fresh), err
	})
	if unknown := (*unknownError)(nil); errors.As(err, &unknown) {
		return unknown.found, nil
	}
	return found, err
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
	next  crl.Fetcher
	known fetch.Cache[string, revoked]
}

func newLists(next crl.Fetcher, now func() time.Time) *lists {
	return &lists{next, fetch.Cache[string, revoked]{Now: now, Entries: maxLists, Bytes: maxBytes}}
}

type revoked struct {
	bundle *crl.Bundle
	at     time.Time
}

// Fetch implements crl.Fetcher.
func (l *lists) Fetch(ctx context.Context, url string) (*crl.Bundle, error) {
	now := l.known.Now()
	old, has := l.known.Get(url)
	if has && now.Sub(old.at) < fresh {
		return old.bundle, nil
	}
	found, err := l.next.Fetch(ctx, url)
	if err != nil {
		if has {
			return old.bundle, nil
		}
		return nil, err
	}
	chain, _ := ctx.Value(chainKey{}).([]*x509.Certificate)
	if signed(found, chain) {
		l.known.Put(url, revoked{found, now}, nextUpdate(found), size(found))
	}
	return found, nil
}

// nextUpdate returns until when a list is in force.
func nextUpdate(b *crl.Bundle) time.Time {
	if b.DeltaCRL != nil && b.DeltaCRL.NextUpdate.Before(b.BaseCRL.NextUpdate) {
		return b.DeltaCRL.NextUpdate
	}
	return b.BaseCRL.NextUpdate
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
