package sigcache

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Default values of Options.
const (
	DefaultSize = 1000
	DefaultTTL  = time.Hour
)

const (
	// shortest and longest bound how long the cache remembers that an image is not signed.
	shortest, longest = 30 * time.Second, time.Minute
	// maxBytes bounds the size of the statements in all answers, and maxAnswer in one remembered answer, as the length of their JSON.
	maxBytes, maxAnswer = 16 << 20, 4 << 20
)

// Options define how many answers are remembered, and for how long.
type Options struct {
	// Size is the number of answers, TTL the time that one is valid; 0 for the defaults. Answers of the same age expire at different
	// times, up to a tenth of the TTL earlier, so that they are not all requested again at once.
	Size int
	TTL  time.Duration
	// Now is the clock. Random returns a number in [0, n); nil for a random one.
	Now    func() time.Time
	Random func(n int64) int64
	// Observe is called for each request that may be remembered, with whether its answer was; nil for none.
	Observe func(remembered bool)
}

// Cache is a verifier that remembers answers. It is safe for concurrent use.
type Cache struct {
	next    world.Signatures
	options Options

	answers fetch.Cache[key, *answer]
}

var _ world.Signatures = (*Cache)(nil)

// New returns a Cache in front of a verifier.
func New(next world.Signatures, o Options) *Cache {
	if o.Size <= 0 {
		o.Size = DefaultSize
	}
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.Random == nil {
		o.Random = rand.Int64N
	}
	if o.Observe == nil {
		o.Observe = func(bool) {}
	}
	return &Cache{next: next, options: o, answers: fetch.Cache[key, *answer]{Now: o.Now, Entries: o.Size, Bytes: maxBytes}}
}

// key identifies a request.
type key [sha256.Size]byte

// answer is the answer of a verifier.
type answer struct {
	digest     string
	statements []world.Statement
	err        error
}

// Verify implements world.Signatures.
func (c *Cache) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	a := c.answerFor(ctx, r, "verify", func(ctx context.Context, r world.SignatureRequest) (out answer) {
		out.digest, out.err = c.next.Verify(ctx, r)
		return out
	})
	return a.digest, a.err
}

// Statements implements world.Signatures. The statements are shared: do not change them.
func (c *Cache) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	a := c.answerFor(ctx, r, "statements", func(ctx context.Context, r world.SignatureRequest) (out answer) {
		out.digest, out.statements, out.err = c.next.Statements(ctx, r)
		return out
	})
	return a.digest, a.statements, a.err
}

// Blob implements world.Signatures. It remembers nothing, since a blob's signatures are part of the request.
func (c *Cache) Blob(ctx context.Context, r world.BlobRequest) (string, error) {
	return c.next.Blob(ctx, r)
}

type verifier func(context.Context, world.SignatureRequest) answer

// answerFor returns the remembered answer, or asks the verifier.
func (c *Cache) answerFor(ctx context.Context, r world.SignatureRequest, method string, verify verifier) *answer {
	remembered := r.Remembered
	r.Remembered = nil
	k, ok := keyOf(r, method)
	if !ok {
		a := verify(ctx, r)
		return &a
	}
	known, ok := c.answers.Get(k)
	if c.options.Observe(ok); ok {
		if remembered != nil {
			*remembered = true
		}
		return known
	}
	a := verify(ctx, r)
	c.remember(k, &a)
	return &a
}

// keyOf returns the key of a request; ok is false if the request has no digest or no requester, or asks for the signatures themselves.
func keyOf(r world.SignatureRequest, method string) (k key, ok bool) {
	name, digest, named := strings.Cut(r.Image, "@")
	if r.For == "" || !named || r.Findings != nil {
		return k, false
	}
	if tag := strings.LastIndexByte(name, ':'); tag > strings.LastIndexByte(name, '/') {
		name = name[:tag] // the answer belongs to the digest, whatever the tag
	}
	r.Image = name + "@" + digest
	text, err := json.Marshal(r)
	if err != nil {
		return k, false
	}
	return sha256.Sum256(append(text, method...)), true
}

// remember stores an answer that is certain: that there is a signature, or that there is none.
func (c *Cache) remember(k key, a *answer) {
	life := c.options.TTL - time.Duration(c.options.Random(int64(c.options.TTL)/10+1))
	unverified := (*world.UnverifiedError)(nil)
	switch {
	case a.err != nil && !errors.As(a.err, &unverified):
		return // the verification was inconclusive
	case a.err != nil, a.digest == "", a.statements != nil && len(a.statements) == 0:
		life = min(life, shortest+time.Duration(c.options.Random(int64(longest-shortest))))
	}
	bytes := 0
	for i := range a.statements {
		bytes += value.Size(a.statements[i].Predicate, maxAnswer) + value.Size(a.statements[i].Document, maxAnswer)
	}
	if bytes <= maxAnswer {
		c.answers.Put(k, a, c.options.Now().Add(life), bytes)
	}
}

// Len returns the number of remembered answers.
func (c *Cache) Len() int { return c.answers.Len() }
