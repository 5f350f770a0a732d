package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// A task runs again after a failure, a panic, the time that it returned, and a wake-up.
func TestTask(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	var rounds atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	wake := NewTrigger()
	done := make(chan struct{})
	reached := make(chan int32, 100)
	go func() {
		defer close(done)
		Task{Name: "t", Wake: wake, Once: func(context.Context) (time.Duration, error) {
			n := rounds.Add(1)
			reached <- n
			switch n {
			case 1:
				return 0, errors.New("not yet") // tried again after a pause
			case 2:
				panic("boom") // so is a panic
			case 3:
				return time.Millisecond, nil // without a wake-up
			}
			return 0, nil // only after a wake-up
		}}.Run(ctx, log)
	}()
	expect := func(want int32) {
		t.Helper()
		select {
		case n := <-reached:
			if n != want {
				t.Fatalf("round %d, want %d", n, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("round %d never came", want)
		}
	}
	for n := range int32(4) {
		expect(n + 1)
	}
	wake.Fire()
	wake.Fire()
	expect(5)
	cancel()
	<-done
}
