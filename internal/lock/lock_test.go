package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Keyed
		unlock, err := k.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a key whose lock is held: %v", err)
		}
		unlock()
		again, err := k.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		again()
	})
}

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		unlock, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a lock that is held: %v", err)
		}
		unlock()
		again, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again()
	})
}
