package admission

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tokens verifies the bearer tokens that an API server presents to its webhooks. A valid token belongs to one of Users and is meant for
// Audience. It is safe for concurrent use.
type Tokens struct {
	// Users may present tokens, such as system:serviceaccount:kube-system:webhooks.
	Users []string
	// Audience is the recipient that a token has to name.
	Audience string
	// Review returns whose token it is, as the API server says.
	Review func(ctx context.Context, token, audience string) (TokenOwner, error)
	Now    func() time.Time

	asking limiter
	mu     sync.Mutex
	known  map[tokenKey]knownToken
	asked  map[tokenKey]*tokenAnswer
}

// TokenOwner is what the API server says of a token.
type TokenOwner struct {
	// Name is the name of the user; empty for a token that is not valid.
	Name string
	// Audiences are the recipients among those asked for that the token names.
	Audiences []string
	// Groups are the API groups whose reviews the token covers, with * for all; nil if the token does not restrict them.
	Groups []string
}

// covers reports whether the owner may send reviews of objects of an API group.
func (o TokenOwner) covers(group string) bool {
	return o.Groups == nil || slices.Contains(o.Groups, "*") || slices.Contains(o.Groups, group)
}

type (
	tokenKey   [sha256.Size]byte // a token itself is never kept
	knownToken struct {
		owner TokenOwner
		until time.Time
	}
	tokenAnswer struct {
		done  chan struct{}
		owner TokenOwner
		err   error
	}
)

// A valid token is asked about again after tokenCounts, so a withdrawn or expired one is refused after that time at the latest. maxTokens
// bounds the tokens that are remembered: a few for each API server. Only tokens that were valid are. A client may have newTokens others per
// second verified, and at most newTokensBurst at once, for at most tokenPatience each.
const (
	tokenCounts    = time.Minute
	maxTokens      = 256
	maxTokenBytes  = 16 << 10
	newTokens      = 1
	newTokensBurst = 5
	tokenPatience  = 5 * time.Second
)

// Errors for tokens.
var (
	errNoToken        = errors.New("only clients with a token of an API server are answered")
	errOtherToken     = errors.New("the token is not that of an API server")
	errTooManyTokens  = errors.New("too many tokens from this address")
	errTokenUnknown   = errors.New("the token cannot be verified")
	errTokenOfAnother = errors.New("the token does not cover reviews of this API group")
)

// owner returns the owner of the request's token, or the HTTP status and the error for a request that is not answered.
func (t *Tokens) owner(r *http.Request) (TokenOwner, int, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxTokenBytes {
		return TokenOwner{}, http.StatusUnauthorized, errNoToken
	}
	owner, err := t.verify(r.Context(), token, r.RemoteAddr)
	switch {
	case errors.Is(err, errTooManyTokens):
		return owner, http.StatusTooManyRequests, err
	case err != nil:
		return owner, http.StatusServiceUnavailable, err
	case !t.accepts(owner):
		return owner, http.StatusForbidden, errOtherToken
	}
	return owner, 0, nil
}

func (t *Tokens) accepts(o TokenOwner) bool {
	return o.Name != "" && slices.Contains(t.Users, o.Name) && slices.Contains(o.Audiences, t.Audience)
}

// verify returns the owner of a token, from memory or from the API server. Requests with the same new token wait for one answer.
func (t *Tokens) verify(ctx context.Context, token, address string) (TokenOwner, error) {
	key := tokenKey(sha256.Sum256([]byte(token)))
	t.mu.Lock()
	now := t.Now()
	k, known := t.known[key]
	if known && now.Before(k.until) {
		t.mu.Unlock()
		return k.owner, nil
	}
	a := t.asked[key]
	if a == nil {
		// A token that was valid is not limited: an API server does not wait for other clients at its address.
		if !known && !t.asking.allow(address, newTokens, newTokensBurst) {
			t.mu.Unlock()
			return TokenOwner{}, errTooManyTokens
		}
		a = &tokenAnswer{done: make(chan struct{})}
		if t.asked == nil {
			t.asked = map[tokenKey]*tokenAnswer{}
		}
		t.asked[key] = a
		// The answer is for all requests with the token, so it does not end with this one.
		go t.review(context.WithoutCancel(ctx), key, token, a)
	}
	t.mu.Unlock()
	select {
	case <-a.done:
		return a.owner, a.err
	case <-ctx.Done():
		return TokenOwner{}, errTokenUnknown
	}
}

// review asks the API server about a token.
func (t *Tokens) review(ctx context.Context, key tokenKey, token string, a *tokenAnswer) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	owner, err := t.Review(ctx, token, t.Audience)
	if a.owner = owner; err != nil {
		a.err = errTokenUnknown // what the API server says is not for a client without a proof
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asked, key)
	switch now := t.Now(); {
	case a.err != nil: // a token that was valid stays known, but does not count until it is verified
	case t.accepts(owner):
		t.remember(key, knownToken{owner, now.Add(tokenCounts)}, now)
	default:
		delete(t.known, key)
	}
	close(a.done)
}

// remember remembers a valid token, in the place of expired ones, or else of the one that expires first.
func (t *Tokens) remember(key tokenKey, k knownToken, now time.Time) {
	if t.known == nil {
		t.known = map[tokenKey]knownToken{}
	}
	if _, there := t.known[key]; !there && len(t.known) >= maxTokens {
		first, until := tokenKey{}, k.until
		for other, o := range t.known {
			if !now.Before(o.until) {
				delete(t.known, other)
			} else if !o.until.After(until) {
				first, until = other, o.until
			}
		}
		if len(t.known) >= maxTokens {
			delete(t.known, first)
		}
	}
	t.known[key] = k
}
