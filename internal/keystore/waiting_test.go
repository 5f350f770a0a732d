package keystore

import (
	"context"
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
