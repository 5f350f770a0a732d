package intake

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A change causes a call at once and further ones later, counted from the last change.
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var looks atomic.Int32
		news := repeated(ctx, func() { looks.Add(1) }, time.Second, 3*time.Second)
		after := func(d time.Duration, want int32) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := looks.Load(); got != want {
				t.Errorf("looked %d times, want %d", got, want)
			}
		}
		news()
		after(500*time.Millisecond, 1)
		news()
		after(900*time.Millisecond, 2)
		after(200*time.Millisecond, 3)
		after(2*time.Second, 4)
		after(time.Hour, 4)
		news()
		stop()
		after(time.Hour, 5)
	})
}
