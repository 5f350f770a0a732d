package keystore

import (
	"context"
	"errors"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/seal"
)

// A digest depends on the key, the domain and the text; without a key there is none, and the Secret is not read for each.
func TestDigests(t *testing.T) {
	store, now, reads, broken := newStore(), time.Unix(1e9, 0), 0, true
	d := NewDigests(&Cached{Load: func(ctx context.Context) (*seal.Keyring, error) {
		if reads++; broken {
			return nil, errors.New("forbidden")
		}
		return store.Load(ctx)
	}, Now: func() time.Time { return now }})
	for range 3 {
		if _, ok := d.Digest(t.Context(), "object", "a"); ok || reads != 1 {
			t.Fatalf("%v after %d reads", ok, reads)
		}
	}
	broken, now = false, now.Add(soonest)
	seen := map[[16]byte]bool{}
	for _, c := range [][2]string{{"object", "a"}, {"patch", "a"}, {"object", "b"}} {
		sum, ok := d.Digest(t.Context(), c[0], c[1])
		again, _ := d.Digest(t.Context(), c[0], c[1])
		if !ok || sum != again || seen[sum] || sum == [16]byte{} {
			t.Errorf("%v: %x, %v", c, sum, ok)
		}
		seen[sum] = true
	}
	if reads != 2 {
		t.Errorf("the Secret was read %d times", reads)
	}
}
