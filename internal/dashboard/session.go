package dashboard

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/world"
)

// How long the API server's answer about a token is cached, and how many tokens are remembered, by their hashes.
const (
	tokenFor    = 10 * time.Second
	maxSessions = 512
	maxRefused  = 1024
)

// The limits of requests per second: for one user, and for all unknown tokens together.
const (
	userRate, userBurst   = 10, 40
	tokenRate, tokenBurst = 10, 30
)

// The reasons why a request is not answered.
var (
	errNoToken = errors.New("a bearer token is required")
	errToken   = errors.New("the API server does not accept this token: it is wrong, or has expired")
	errRate    = errors.New("too many requests: wait a second")
)

// hash identifies a token.
type hash [sha256.Size]byte

// sessions identifies the user of a request. It is safe for concurrent use.
type sessions struct {
	tokens Tokens // nil if no token is needed
	access world.Access
	form   reports.Form
	now    func() time.Time
	fresh  *rate.Limiter // for tokens that are not known
	nobody *session

	mu      sync.Mutex
	known   map[hash]*session
	refused map[hash]time.Time // until when each is rejected
}

func newSessions(o Options) *sessions {
	return &sessions{
		tokens: o.Tokens, access: o.Access, form: o.Form, now: o.Now,
		fresh: rate.NewLimiter(tokenRate, tokenBurst), nobody: newSession(User{}),
		known: map[hash]*session{}, refused: map[hash]time.Time{},
	}
}

// session is the session of one user.
type session struct {
	user  User
	limit *rate.Limiter

	mu       sync.Mutex
	until    time.Time          // until when the token is valid; zero before the first review
	verdicts map[string]verdict // by namespace; see access.go
}

func newSession(u User) *session {
	return &session{user: u, limit: rate.NewLimiter(userRate, userBurst), verdicts: map[string]verdict{}}
}

// of returns the session of the user with the token.
func (s *sessions) of(ctx context.Context, token string) (*session, error) {
	if s.tokens == nil {
		if !s.nobody.limit.AllowN(s.now(), 1) {
			return nil, errRate
		}
		return s.nobody, nil
	}
	if token == "" {
		return nil, errNoToken
	}
	h := hash(sha256.Sum256([]byte(token)))
	one, err := s.remembered(h)
	if err != nil {
		return nil, err
	}
	if !one.limit.AllowN(s.now(), 1) {
		return nil, errRate
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if s.now().Before(one.until) {
		return one, nil
	}
	u, ok, err := s.tokens.Review(ctx, token)
	if err != nil {
		return nil, err
	}
	if !ok {
		s.refuse(h)
		return nil, errToken
	}
	if one.until.IsZero() || u.Name != one.user.Name || u.UID != one.user.UID {
		one.user, one.verdicts = u, map[string]verdict{}
	}
	one.user.Groups, one.user.Extra = u.Groups, u.Extra
	one.until = s.now().Add(tokenFor)
	return one, nil
}

// remembered returns the session of a token, which the API server may not have reviewed yet.
func (s *sessions) remembered(h hash) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if until, ok := s.refused[h]; ok {
		if now.Before(until) {
			return nil, errToken
		}
		delete(s.refused, h)
	}
	if one := s.known[h]; one != nil {
		return one, nil
	}
	if !s.fresh.AllowN(now, 1) {
		return nil, errRate // checking guessed tokens costs the API server time
	}
	makeRoom(s.known, maxSessions)
	one := newSession(User{})
	s.known[h] = one
	return one, nil
}

// refuse caches that the token belongs to no user.
func (s *sessions) refuse(h hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, h)
	makeRoom(s.refused, maxRefused)
	s.refused[h] = s.now().Add(tokenFor)
}

// makeRoom removes an arbitrary entry if the map is full.
func makeRoom[V any](m map[hash]V, most int) {
	if len(m) < most {
		return
	}
	for k := range m {
		delete(m, k)
		return
	}
}
