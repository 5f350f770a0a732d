package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

const (
	tokenUser     = "system:serviceaccount:kube-system:webhooks"
	tokenAudience = "https://kyverno-svc.kyverno.svc:443"
)

// tokensFor returns a verifier of the given tokens, with the number of questions to the API server.
func tokensFor(owners map[string]TokenOwner, now func() time.Time) (*Tokens, *atomic.Int32) {
	asked := &atomic.Int32{}
	return &Tokens{Users: []string{tokenUser}, Audience: tokenAudience, Now: now, Review: func(_ context.Context, token, audience string) (TokenOwner, error) {
		asked.Add(1)
		if audience != tokenAudience {
			return TokenOwner{}, fmt.Errorf("asked for the audience %s", audience)
		}
		if token == "unanswered" {
			return TokenOwner{}, errors.New("no answer")
		}
		return owners[token], nil
	}}, asked
}

// Row T1 of docs/security/threat-model.md: with users of tokens, a client that knows a path needs a valid token, too.
func TestT1Tokens(t *testing.T) {
	ours := []string{tokenAudience}
	tokens, _ := tokensFor(map[string]TokenOwner{
		"good":      {Name: tokenUser, Audiences: ours},
		"all":       {Name: tokenUser, Audiences: ours, Groups: []string{"*"}},
		"apps":      {Name: tokenUser, Audiences: ours, Groups: []string{"apps"}},
		"nothing":   {Name: tokenUser, Audiences: ours, Groups: []string{}},
		"other":     {Name: "system:serviceaccount:shop:default", Audiences: ours},
		"elsewhere": {Name: tokenUser, Audiences: []string{"https://kubernetes.default.svc"}},
		"unnamed":   {Name: tokenUser},
		"nameless":  {Audiences: ours},
	}, time.Now)
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	srv.gate.Tokens = tokens
	for i, c := range []struct {
		header string
		want   int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer ", http.StatusUnauthorized},
		{"Basic good", http.StatusUnauthorized},
		{"Bearer good", http.StatusOK},
		{"bearer good", http.StatusOK},
		{"Bearer all", http.StatusOK},
		{"Bearer apps", http.StatusForbidden}, // the review is about a ConfigMap
		{"Bearer nothing", http.StatusForbidden},
		{"Bearer other", http.StatusForbidden},
		{"Bearer elsewhere", http.StatusForbidden},
		{"Bearer unnamed", http.StatusForbidden},
		{"Bearer nameless", http.StatusForbidden},
		{"Bearer invented", http.StatusForbidden},
		{"Bearer unanswered", http.StatusServiceUnavailable},
	} {
		r := httptest.NewRequest(http.MethodPost, "/validate/fail", bytes.NewReader(configMap(team)))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = fmt.Sprintf("10.0.%d.1:443", i)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%q: %d, want %d: %s", c.header, w.Code, c.want, w.Body)
		}
	}
}

// A valid token is verified once a minute. Others are verified each time, and one address can have few of them verified.
func TestT1TokensAreRemembered(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	tokens, asked := tokensFor(map[string]TokenOwner{"good": {Name: tokenUser, Audiences: []string{tokenAudience}}}, func() time.Time { return now })
	verify := func(token, address string) error {
		owner, err := tokens.verify(t.Context(), token, address)
		if err == nil && !tokens.accepts(owner) {
			err = errOtherToken
		}
		return err
	}
	for range 100 {
		if err := verify("good", "10.0.0.1:443"); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times for one token", n)
	}
	now = now.Add(tokenCounts)
	if err := verify("good", "10.0.0.1:443"); err != nil || asked.Load() != 2 {
		t.Errorf("after a minute: %v, asked %d times", err, asked.Load())
	}
	refused := 0
	for i := range 100 {
		switch err := verify(fmt.Sprint("invented", i), "10.0.0.2:443"); {
		case errors.Is(err, errTooManyTokens):
			refused++
		case !errors.Is(err, errOtherToken):
			t.Fatal(err)
		}
	}
	if refused < 90 {
		t.Errorf("only %d of 100 invented tokens were not verified", refused)
	}
	if err := verify("good", "10.0.0.2:443"); err != nil { // a remembered token does not wait
		t.Error(err)
	}
}

// An API server is answered after the minute, too, although another client at its address has invented tokens verified all the time, and
// although a question was not answered.
func TestT1TokensOfAnAddressThatAsksTooMuch(t *testing.T) {
	const address = "10.0.0.1:443"
	now, silent := time.Unix(1_000_000, 0), false
	tokens, _ := tokensFor(map[string]TokenOwner{"good": {Name: tokenUser, Audiences: []string{tokenAudience}}}, func() time.Time { return now })
	answer := tokens.Review
	tokens.Review = func(ctx context.Context, token, audience string) (TokenOwner, error) {
		if silent {
			token = "unanswered"
		}
		return answer(ctx, token, audience)
	}
	if _, err := tokens.verify(t.Context(), "good", address); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		_, _ = tokens.verify(t.Context(), fmt.Sprint("invented", i), address)
	}
	now, silent = now.Add(tokenCounts), true
	if _, err := tokens.verify(t.Context(), "good", address); !errors.Is(err, errTokenUnknown) {
		t.Errorf("not answered: %v, want %v", err, errTokenUnknown)
	}
	silent = false
	if owner, err := tokens.verify(t.Context(), "good", address); err != nil || !tokens.accepts(owner) {
		t.Errorf("%v, %+v", err, owner)
	}
}

// The number of remembered tokens is bounded: the one that expires first makes room.
func TestT1TokensAreBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	tokens := &Tokens{}
	key := func(i int) tokenKey { return tokenKey{byte(i), byte(i >> 8)} }
	for i := range maxTokens + 10 {
		tokens.remember(key(i), knownToken{until: now.Add(tokenCounts + time.Duration(i))}, now)
	}
	if _, first := tokens.known[key(9)]; first || len(tokens.known) != maxTokens {
		t.Errorf("%d tokens, the first ones %v", len(tokens.known), first)
	}
	tokens.remember(key(1000), knownToken{until: now.Add(time.Hour)}, now.Add(time.Hour/2))
	if len(tokens.known) != 1 {
		t.Errorf("%d expired tokens stay", len(tokens.known)-1)
	}
}

// Requests with the same new token wait for one answer, and not longer than their own time allows.
func TestT1TokensAreAskedForOnce(t *testing.T) {
	tokens, asked := tokensFor(nil, time.Now)
	answer := make(chan struct{})
	review := tokens.Review
	tokens.Review = func(ctx context.Context, token, audience string) (TokenOwner, error) {
		<-answer
		_, _ = review(ctx, token, audience)
		return TokenOwner{Name: tokenUser, Audiences: []string{audience}}, nil
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tokens.verify(over, "new", "10.0.0.1:443"); !errors.Is(err, errTokenUnknown) {
		t.Errorf("a request without time left: %v", err)
	}
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := tokens.verify(t.Context(), "new", "10.0.0.1:443")
			done <- err
		}()
	}
	close(answer)
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
