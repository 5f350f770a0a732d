package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Sources of a group begin when they are set, and end when they are missing or the row ends.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var steps []string
		step := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, text)
		}
		source := func(name string) Source {
			return Func(func(ctx context.Context, add func(string)) error {
				add(name)
				<-ctx.Done()
				step("ended " + name)
				return nil
			})
		}
		g := &Group[string]{}
		g.Set(map[string]Source{"a": source("a")})
		none := func(func(string) bool) {}
		row := Row{Name: "t", Sources: []Source{g}, Keys: none, Reconcile: func(_ context.Context, key string) (time.Duration, error) {
			step("reconciled " + key)
			return 0, nil
		}}
		end := run(t, row)
		g.Set(map[string]Source{"a": source("another a"), "b": source("b")})
		synctest.Wait()
		g.Set(map[string]Source{"b": source("b")})
		synctest.Wait()
		end()
		run(t, row)() // a row that runs again starts them again
		want := []string{"reconciled a", "reconciled b", "ended a", "ended b", "reconciled b", "ended b"}
		if !slices.Equal(steps, want) {
			t.Errorf("%s, want %s", strings.Join(steps, ", "), strings.Join(want, ", "))
		}
	})
}
