package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlineIsAContext(t *testing.T) {
	type key struct{}
	ended := func(ctx context.Context) bool {
		select {
		case <-ctx.Done():
			return true
		default:
			return false
		}
	}
	for name, armed := range map[string]bool{"no code waits": false, "some code waits": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, 1))
				first, second, third := withTimeout(parent, time.Second), withTimeout(parent, time.Hour), withTimeout(parent, time.Hour)
				if armed && (ended(first) || ended(second) || ended(third)) {
					t.Fatal("it has ended at once")
				}
				if at, ok := first.Deadline(); !ok || !at.Equal(time.Now().Add(time.Second)) || first.Value(key{}) != 1 || first.Err() != nil {
					t.Error(at, ok, first.Err())
				}
				child, stop := context.WithCancel(second)
				defer stop()
				time.Sleep(time.Second)
				synctest.Wait()
				if err := first.Err(); !errors.Is(err, context.DeadlineExceeded) || !ended(first) {
					t.Error("after its time: ", err)
				}
				if err := second.Err(); err != nil {
					t.Error("before its time: ", err)
				}
				second.end()
				synctest.Wait()
				if err := second.Err(); !errors.Is(err, context.Canceled) || !ended(second) || child.Err() == nil {
					t.Error("after its end: ", err, child.Err())
				}
				cancel()
				synctest.Wait()
				if err := third.Err(); !errors.Is(err, context.Canceled) || !ended(third) {
					t.Error("after that of its parent: ", err)
				}
				first.end()
				third.end()
			})
		})
	}
}
