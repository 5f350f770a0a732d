package globalctx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// While one reader computes a projection, others read the data and other projections. Those that wait for it stop with their evaluation, and
// one of them computes it if the first one ends early.
func TestReadersOfAProjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := entry(t, "pods", pods)
		d := &data{make: func() (any, error) { return map[string]any{"items": []any{map[string]any{"name": "a"}}}, nil }}
		if err := d.made(); err != nil {
			t.Fatal(err)
		}
		key := projection{e, "names"}
		computing, first := d.projection(key)
		if !first {
			t.Fatal("another reader computes it")
		}
		for _, other := range []string{"", "a.b"} {
			if _, err := d.read(t.Context(), e, other); err != nil {
				t.Errorf("%q: %v", other, err)
			}
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.read(over, e, "names"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		done := make(chan any, 1)
		go func() {
			v, err := d.read(t.Context(), e, "names")
			done <- err
			done <- v
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatal("a reader did not wait")
		}
		d.compute(over, key, computing) // the evaluation of the first reader has ended
		if err := <-done; err != nil {
			t.Error(err)
		}
		if v, _ := (<-done).([]any); len(v) != 1 || v[0] != "a" {
			t.Errorf("%v", v)
		}
	})
}
