package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ephor.invalid/ephor/internal/bounded"
)

func TestDo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
		fmt.Fprint(w, strings.Repeat("x", 10))
	}))
	defer server.Close()
	for _, c := range []struct {
		path   string
		limit  int64
		status int
		over   bool
	}{{"/", 10, 200, false}, {"/", 9, 200, true}, {"/away", 100, 302, false}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, body, err := Do(Client(nil), r, c.limit)
		if bounded.Exceeded(err) != c.over || answer == nil || answer.StatusCode != c.status || !c.over && len(body) < 10 {
			t.Errorf("%+v: %v, %q, %v", c, answer, body, err)
		}
	}
}

// Callers share a load. It goes on while one of them waits, and ends with the last one.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Once[int]
		loads, ended := 0, false
		load := func(ctx context.Context) (int, error) {
			loads++
			select {
			case <-time.After(time.Minute):
				return loads, nil
			case <-ctx.Done():
				ended = true
				return 0, ctx.Err()
			}
		}
		impatient, cancel := context.WithCancel(t.Context())
		go o.Get(impatient, load)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !ended {
			t.Error("a load goes on for no caller")
		}
		got := make(chan int, 2)
		for range 2 {
			go func() {
				v, _ := o.Get(t.Context(), load)
				got <- v
			}()
		}
		if a, b := <-got, <-got; a != 2 || b != 2 {
			t.Errorf("%d and %d, want 2", a, b)
		}
		if v, err := o.Get(t.Context(), load); v != 2 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}

// A panic of hostile data is an error, and an error is not kept.
func TestGroup(t *testing.T) {
	for _, keep := range []bool{true, false} {
		g := Group[string, int]{Keep: keep}
		if _, err := g.Get(t.Context(), "a", func(context.Context) (int, error) { panic("hostile") }); err == nil || !strings.HasPrefix(err.Error(), "panic: hostile") {
			t.Errorf("%v", err)
		}
		for i := range 2 {
			want := i
			if keep {
				want = 0
			}
			if v, err := g.Get(t.Context(), "a", func(context.Context) (int, error) { return i, nil }); v != want || err != nil {
				t.Errorf("keep %v: %d, %v; want %d", keep, v, err, want)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	now := time.Unix(0, 0)
	a := Answers[string, int]{Now: func() time.Time { return now }, Timeout: time.Minute, Retry: time.Minute, Usable: 2 * time.Hour, Entries: 2}
	queries, failure := 0, error(nil)
	get := func(key string) string {
		v, err := a.Get(t.Context(), key, func(context.Context) (int, time.Time, error) {
			queries++
			return queries, now.Add(time.Hour), failure
		})
		return fmt.Sprint(v, err)
	}
	down, gone := errors.New("down"), &GoneError{errors.New("gone")}
	for _, step := range []struct {
		after   time.Duration
		failure error
		want    string
	}{
		{0, nil, "1 <nil>"},
		{59 * time.Minute, nil, "1 <nil>"},
		{time.Minute, down, "1 <nil>"}, // the old answer
		{30 * time.Second, nil, "1 <nil>"},
		{time.Minute, nil, "3 <nil>"},
		{2 * time.Hour, down, "0 down"},
		{time.Second, nil, "0 down"},
		{time.Minute, nil, "5 <nil>"},
		{time.Hour, gone, "0 gone"},
	} {
		now, failure = now.Add(step.after), step.failure
		if got := get("a"); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
	}
	failure = nil
	for _, key := range []string{"b", "c"} {
		now = now.Add(time.Second)
		get(key)
	}
	if len(a.known) != 2 || a.known["a"] != nil {
		t.Errorf("%d keys are known, with the oldest one", len(a.known))
	}
}

// A caller with an old answer does not wait for a slow service.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Answers[string, int]{Now: time.Now, Timeout: time.Minute, Retry: time.Minute, Patience: time.Second, Entries: 1}
		query := func(ctx context.Context, v int, wait time.Duration) (int, error) {
			return a.Get(ctx, "a", func(context.Context) (int, time.Time, error) {
				time.Sleep(wait)
				return v, time.Now().Add(time.Second), nil
			})
		}
		if v, err := query(t.Context(), 1, 0); v != 1 || err != nil {
			t.Fatal(v, err)
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		if v, err := query(t.Context(), 2, 10*time.Second); v != 1 || err != nil || time.Since(start) != time.Second {
			t.Errorf("%d, %v after %v", v, err, time.Since(start))
		}
		time.Sleep(9 * time.Second)
		if v, err := query(t.Context(), 3, 0); v != 2 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}

func TestCache(t *testing.T) {
	now := time.Unix(0, 0)
	c := Cache[string, int]{Now: func() time.Time { return now }, Entries: 3, Bytes: 10}
	put := func(key string, v, bytes int) { c.Put(key, v, now.Add(time.Minute), bytes) }
	has := func(want string) {
		t.Helper()
		got := ""
		for _, k := range []string{"a", "b", "c", "d"} {
			if _, ok := c.Get(k); ok {
				got += k
			}
		}
		if got != want || c.Len() != len(want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	put("a", 1, 1)
	put("b", 2, 1)
	put("c", 3, 1)
	c.Get("a")
	put("d", 4, 1)
	has("acd")
	put("a", 5, 9)
	has("ad") // a and one more byte
	c.Drop(func(_ string, v int) bool { return v == 4 })
	has("a")
	now = now.Add(time.Minute)
	has("")
}
