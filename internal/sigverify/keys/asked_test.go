package keys

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"
)

// A key that a service no longer gives ends some time later.
func TestOldAnswersEnd(t *testing.T) {
	now := time.Unix(1e9, 0)
	a, refused := newAsked(func() time.Time { return now }), errors.New("403 Forbidden")
	for _, step := range []struct {
		after   time.Duration
		answer  error
		refused bool
	}{{0, nil, false}, {2 * time.Hour, refused, false}, {lastAnswer - 2*time.Hour - 1, refused, false}, {retryAfter, refused, true}, {retryAfter, nil, false}} {
		now = now.Add(step.after)
		keys, err := a.get(t.Context(), question{ref: "awskms:///alias/release"}, func(context.Context) ([]crypto.PublicKey, error) {
			return []crypto.PublicKey{ed25519.PublicKey("key")}, step.answer
		})
		if (err != nil) != step.refused || (len(keys) == 1) == step.refused {
			t.Errorf("%+v: %v, %v", step, keys, err)
		}
	}
}
