package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// run runs a row in the bubble of a test, and returns a function that ends it.
func run(t *testing.T, r Row) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); RunRows(ctx, []Row{r}, quiet, nil) }()
	synctest.Wait()
	return func() { stop(); <-done }
}

// A row runs again after a failure, a panic, the time that it returned, and a signal.
func TestRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var rounds []time.Duration
		changed := &Signal{}
		end := run(t, Row{Name: "t", Sources: []Source{changed}, Reconcile: Singleton(func(context.Context) (time.Duration, error) {
			rounds = append(rounds, time.Since(began))
			switch len(rounds) {
			case 1:
				return 0, errors.New("not yet")
			case 2:
				panic("boom")
			case 3:
				return time.Second, nil
			}
			return 0, nil
		})})
		time.Sleep(time.Minute)
		changed.Fire()
		changed.Fire()
		synctest.Wait()
		end()
		changed.Fire() // has no effect after the end
		want := []time.Duration{0, firstPause, 3 * firstPause, 3*firstPause + time.Second, time.Minute}
		if !slices.Equal(rounds, want) {
			t.Errorf("rounds at %v, want %v", rounds, want)
		}
	})
}

// A change during a round causes another one, and a change after a failure does not shorten the pause, which grows.
func TestRowPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds atomic.Int32
		var works atomic.Bool
		changed := &Signal{}
		end := run(t, Row{Name: "t", Sources: []Source{changed}, Reconcile: Singleton(func(context.Context) (time.Duration, error) {
			rounds.Add(1)
			changed.Fire() // as the event of its own write does
			if !works.Load() {
				return 0, errors.New("not yet")
			}
			time.Sleep(time.Hour)
			return 0, nil
		})})
		for range 600 {
			time.Sleep(time.Second)
			changed.Fire()
		}
		if n := rounds.Swap(0); n < 20 || n > 30 {
			t.Errorf("%d rounds that fail in 10 minutes", n)
		}
		works.Store(true)
		time.Sleep(90 * time.Minute)
		if n := rounds.Load(); n != 2 {
			t.Errorf("%d rounds, want one and another one after the change", n)
		}
		end()
	})
}

// Keys are reconciled side by side, but never one key twice at the same time.
func TestRowKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy, most, rounds := map[string]bool{}, 0, map[string]int{}
		changed := &Signal{}
		end := run(t, Row{Name: "t", Workers: 2, Keys: slices.Values([]string{"a", "b", "c"}), Sources: []Source{changed}, Reconcile: func(_ context.Context, key string) (time.Duration, error) {
			mu.Lock()
			if busy[key] {
				t.Errorf("%s is reconciled twice at the same time", key)
			}
			busy[key] = true
			rounds[key]++
			most = max(most, len(busy))
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			delete(busy, key)
			return 0, nil
		}})
		changed.Add("a")
		time.Sleep(time.Minute)
		end()
		if want := map[string]int{"a": 2, "b": 1, "c": 1}; most != 2 || !maps.Equal(rounds, want) {
			t.Errorf("%d at once, rounds %v", most, rounds)
		}
	})
}

// share holds the keys of one replica.
type share struct {
	mu      sync.Mutex
	keys    map[string]context.CancelFunc
	changed chan struct{}
}

func (s *share) set(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stop := range s.keys {
		stop()
	}
	s.keys = map[string]context.CancelFunc{}
	for _, key := range keys {
		s.keys[key] = func() {}
	}
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *share) Hold(ctx context.Context, key string) (context.Context, func(), bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] == nil {
		return nil, nil, false
	}
	held, stop := context.WithCancel(ctx)
	s.keys[key] = stop
	return held, stop, true
}

func (s *share) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// A replica reconciles the keys of its share, and the others when its share changes. A key that is lost ends at once, and is no failure.
func TestRowShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &share{}
		s.set("key a")
		var rounds []string
		end := run(t, Row{
			Name: "t", Owner: Shared(s, func(key string) string { return "key " + key }), Keys: slices.Values([]string{"a", "b"}),
			Reconcile: func(ctx context.Context, key string) (time.Duration, error) {
				rounds = append(rounds, key)
				if key == "a" {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return 0, nil
			},
		})
		time.Sleep(time.Minute)
		s.set("key b")
		time.Sleep(time.Minute)
		end()
		// b waits behind a, and the change of the share may queue it once more.
		if !slices.Equal(slices.Compact(rounds), []string{"a", "b"}) {
			t.Errorf("rounds %v", rounds)
		}
	})
}

// counts is an Observer.
type counts struct {
	mu  sync.Mutex
	all []string
}

func (c *counts) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, text)
}
func (c *counts) Controller(name string)      { c.add("row " + name) }
func (c *counts) Reconciled(name string)      { c.add("reconciled " + name) }
func (c *counts) Requeued(name string, n int) { c.add(fmt.Sprintf("requeued %s %d", name, n)) }

// Rounds are counted; a source that fails is started again; a row without Reconcile has sources only.
func TestRowCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		rounds, starts := 0, 0
		observer := &counts{}
		source := Func(func(ctx context.Context, add func(string)) error {
			if starts++; starts == 1 {
				panic("boom")
			}
			<-ctx.Done()
			return nil
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			RunRows(ctx, []Row{
				{Name: "sources", Sources: []Source{source}},
				{Name: "rounds", Reconcile: Singleton(func(context.Context) (time.Duration, error) {
					if rounds++; rounds < 3 {
						return 0, errors.New("not yet")
					}
					return 0, nil
				})},
			}, quiet, observer)
		}()
		time.Sleep(time.Minute)
		stop()
		<-done
		want := "reconciled rounds, requeued rounds 1, reconciled rounds, requeued rounds 2, reconciled rounds"
		if got := strings.Join(observer.all, ", "); got != want || starts != 2 {
			t.Errorf("%s; %d starts", got, starts)
		}
	})
}
