package keystore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ephor.invalid/ephor/internal/seal"
)

// Callers that need the keys while the Secret cannot be read wait at the same time, each as long as its own context allows.
func TestCallersWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cached{Now: time.Now, Load: func(ctx context.Context) (*seal.Keyring, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		began := time.Now()
		done := make(chan error)
		for range 4 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Ring(ctx)
				done <- err
			}()
		}
		for range 4 {
			if err := <-done; err == nil {
				t.Error("no key was read, and there is no error")
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the last of 4 callers waited %s, want 1s", took)
		}
	})
}

// The callers share an API server that fails after a while: they ask it again only after a pause. The failure of a caller that gives up is its own.
func TestFailuresAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := &Cached{Now: time.Now, Load: func(ctx context.Context) (*seal.Keyring, error) {
			asked++
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * time.Second):
				return nil, errors.New("no answer")
			}
		}}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := c.Ring(gone); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		began := time.Now()
		done := make(chan error)
		for range 20 {
			go func() {
				_, err := c.Ring(t.Context())
				done <- err
			}()
		}
		for range 20 {
			if err := <-done; err == nil || errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 11*time.Second || asked != 2 {
			t.Errorf("20 callers waited %v and asked %d times", took, asked-1)
		}
	})
}
