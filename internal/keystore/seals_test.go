package keystore

import (
	"context"
	"errors"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/seal"
)

// Seals are valid only in their domain, also those with a key that another replica has just added. Without the Secret, the check is an
// error.
func TestSeals(t *testing.T) {
	store, now := newStore(), time.Unix(1e9, 0)
	broken := false
	keys := &Cached{Load: func(ctx context.Context) (*seal.Keyring, error) {
		if broken {
			return nil, errors.New("forbidden")
		}
		return store.Load(ctx)
	}, Now: func() time.Time { return now }}
	s := Seals{keys}
	text, err := s.Seal(t.Context(), "d", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	check := func(want bool, text, domain string, parts ...string) {
		t.Helper()
		if ok, err := s.Sealed(t.Context(), text, domain, parts...); ok != want || err != nil {
			t.Errorf("%v, %v, want %v", ok, err, want)
		}
	}
	check(true, text, "d", "a", "b")
	check(false, text, "d", "ab")
	check(false, text, "e", "a", "b")
	check(false, "", "d", "a", "b")
	check(false, "forged", "d", "a", "b")

	ring, err := store.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(soonest)
	check(true, ring.Seal("d", "a"), "d", "a")
	check(true, text, "d", "a", "b")

	if ring, err = store.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, broken = now.Add(soonest), true
	check(true, text, "d", "a", "b")
	for range 2 {
		if ok, err := s.Sealed(t.Context(), ring.Seal("d", "a"), "d", "a"); ok || err == nil {
			t.Errorf("%v, %v: a seal with a key that cannot be read is forged", ok, err)
		}
	}
	empty := Seals{&Cached{Load: keys.Load, Now: keys.Now}}
	if _, err := empty.Sealed(t.Context(), text, "d", "a", "b"); err == nil {
		t.Error("a seal was checked without keys")
	}
	if _, err := empty.Seal(t.Context(), "d", "a"); err == nil {
		t.Error("a seal was made without keys")
	}
}
