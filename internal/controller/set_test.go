package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// The parts of a Set run while they are wanted and the row runs; a new term starts all of them again.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		runs, started := map[string]int{}, 0
		part := func(name string) func(context.Context) {
			return func(ctx context.Context) {
				mu.Lock()
				runs[name]++
				started++
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				if runs[name]--; runs[name] == 0 {
					delete(runs, name)
				}
			}
		}
		s := &Set[string]{}
		want := func(names ...string) {
			parts := map[string]func(context.Context){}
			for _, n := range names {
				parts[n] = part(n)
			}
			s.Want(parts)
			synctest.Wait()
		}
		check := func(when string, names ...string) {
			t.Helper()
			if got := slices.Sorted(maps.Keys(runs)); !slices.Equal(got, names) {
				t.Errorf("%s: %q, want %q", when, got, names)
			}
		}
		want("a")
		check("before the row runs")
		for range 2 {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			run := s.Start(ctx, nil)
			go func() { ended <- run() }()
			want("a", "b")
			want("a", "b")
			check("wanted", "a", "b")
			want("b", "c")
			check("another set", "b", "c")
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			check("after the row")
		}
		if started != 6 {
			t.Errorf("%d starts", started)
		}
	})
}
