package globalctx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

func entry(t *testing.T, name, spec string) *globalentry.Entry {
	t.Helper()
	var object map[string]any
	text := fmt.Sprintf("{apiVersion: kyverno.io/v2, kind: GlobalContextEntry, metadata: {name: %s}, spec: %s}", name, spec)
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	e, _ := globalentry.Compile(object)
	return e
}

// read returns the data for a policy, or the error.
func read(s *Store, name string) string {
	v, err := s.Global(context.Background(), world.GlobalRequest(name))
	if err != nil {
		return "error: " + err.Error()
	}
	return value.JSON(v)
}

const pods = `{apiCall: {urlPath: /api/v1/pods, refreshInterval: 10m, retryLimit: 2}, projections: [{name: names, jmesPath: "items[].name"}, {name: a.b, jmesPath: "length(items)"}, {name: bad, jmesPath: "parse_json(items[0].name)"}]}`

// Readers use what they found without a lock: an entry whose data begin to be loaded replaces the one that waited.
func TestEntriesAreNotModified(t *testing.T) {
	s := New(Options{MaxEntries: 1, Now: time.Now})
	s.Set(entry(t, "a", pods))
	s.Set(entry(t, "b", pods))
	before, _ := s.find("b")
	s.Delete("a")
	if after, _ := s.find("b"); before.from != nil || after.from == nil {
		t.Errorf("the entry that a reader found has a source: %v, the present one: %v", before.from != nil, after.from != nil)
	}
}

// A call is repeated at its interval. A failed call is retried at once up to retryLimit; then the entry is an error, and the next refresh
// does not wait for a long interval.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var calls atomic.Int32
		var down atomic.Bool
		var failures []string
		var changed atomic.Int32
		s := started(ctx, Options{
			API: world.API(func(_ context.Context, r world.APIRequest) (any, error) {
				n := calls.Add(1)
				if down.Load() {
					return nil, errors.New("permission denied: no")
				}
				return map[string]any{"items": []any{map[string]any{"name": fmt.Sprintf("%s-%d", r.Path.Resource, n)}}}, nil
			}),
			Now: time.Now, Changed: func(string) { changed.Add(1) },
			Failed: func(e *globalentry.Entry, err error) { failures = append(failures, e.Name+": "+err.Error()) },
		})
		e := entry(t, "pods", pods)
		s.Set(e)
		synctest.Wait()
		expect := func(name, want string) {
			t.Helper()
			if got := read(s, name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		expect("pods", `{"items":[{"name":"pods-1"}]}`)
		expect("pods.names", `["pods-1"]`)
		expect("pods.a.b", `1`)
		expect("pods.none", "error: the GlobalContextEntry pods has no projection none")
		expect("other.names", "error: there is no GlobalContextEntry other")
		if got := read(s, "pods.bad"); !strings.HasPrefix(got, `error: `) {
			t.Errorf("a projection that fails gave %s", got)
		}
		first, _ := s.State("pods")
		if first.Err != nil || !first.Refreshed.Equal(time.Now()) {
			t.Errorf("%+v", first)
		}

		time.Sleep(10 * time.Minute)
		synctest.Wait()
		expect("pods.names", `["pods-2"]`)

		// With the same source and other projections, nothing is fetched again, and the new projections apply.
		s.Set(entry(t, "pods", strings.Replace(pods, "names", "titles", 1)))
		synctest.Wait()
		expect("pods.titles", `["pods-2"]`)
		expect("pods.names", "error: the GlobalContextEntry pods has no projection names")
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls", n)
		}
		s.Set(e)

		down.Store(true)
		time.Sleep(10*time.Minute + firstPause + 2*firstPause)
		synctest.Wait()
		if n := calls.Load(); n != 2+3 {
			t.Errorf("%d calls: one and two retries are wanted", n)
		}
		expect("pods.names", "error: the GlobalContextEntry pods has no data: failed to GET resource with raw url: /api/v1/pods: permission denied: no")
		if st, _ := s.State("pods"); st.Err == nil || st.Refreshed.IsZero() {
			t.Errorf("%+v: an error, and when the last data came", st)
		}
		if len(failures) != 1 || !strings.Contains(failures[0], "permission denied") {
			t.Errorf("%q", failures)
		}
		down.Store(false)
		time.Sleep(longestOutage)
		synctest.Wait()
		expect("pods.names", `["pods-6"]`)

		s.Delete("pods")
		synctest.Wait()
		expect("pods", "error: there is no GlobalContextEntry pods")
		time.Sleep(time.Hour)
		if n := calls.Load(); n != 6 {
			t.Errorf("%d calls: a deleted entry goes on calling", n)
		}
		stop()
		synctest.Wait()
	})
}

func TestServiceAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := started(ctx, Options{
			Services: world.Services(func(_ context.Context, r world.ServiceRequest) (any, error) {
				if r.URL == "https://panic" {
					panic("a bug")
				}
				return r.Body, nil
			}),
			Now: time.Now,
		})
		s.Set(entry(t, "post", `{apiCall: {method: POST, data: [{key: a, value: 1}], service: {url: "https://x"}}}`))
		s.Set(entry(t, "bug", `{apiCall: {retryLimit: 1, service: {url: "https://panic"}}}`))
		s.Set(entry(t, "nobody", `{apiCall: {retryLimit: 1, urlPath: /version}}`))
		settle, cancel := context.WithTimeout(ctx, time.Minute)
		s.Settle(settle)
		cancel()
		for name, want := range map[string]string{
			"post":   `{"a":1}`,
			"bug":    "error: the GlobalContextEntry bug has no data: failed to call https://panic: internal error: a bug",
			"nobody": "error: the GlobalContextEntry nobody has no data: calls are not available here",
		} {
			if got := read(s, name); got != want && got != strings.Replace(want, "failed to call https://panic: ", "", 1) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		stop()
		synctest.Wait()
	})
}

// Until the first answer an entry is an error, and Settle waits for it.
func TestEntryBeforeItsFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := started(ctx, Options{
			API: world.API(func(ctx context.Context, _ world.APIRequest) (any, error) {
				time.Sleep(5 * time.Second)
				return "data", nil
			}),
			Now: time.Now,
		})
		s.Set(entry(t, "slow", `{apiCall: {urlPath: /version}}`))
		if got := read(s, "slow"); got != "error: the GlobalContextEntry slow has no data: it has not been fetched yet" {
			t.Error(got)
		}
		if st, _ := s.State("slow"); !st.Pending {
			t.Errorf("%+v", st)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		s.Settle(short)
		cancel()
		if _, err := s.Global(ctx, "slow"); err == nil {
			t.Error("there are data too early")
		}
		s.Settle(ctx)
		if got := read(s, "slow"); got != `"data"` {
			t.Error(got)
		}
		stop()
		synctest.Wait()
	})
}

func TestLimitOfEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var failed []string
		s := started(ctx, Options{
			API:        world.API(func(context.Context, world.APIRequest) (any, error) { return "data", nil }),
			MaxEntries: 1, Now: time.Now,
			Failed: func(e *globalentry.Entry, err error) { failed = append(failed, err.Error()) },
		})
		s.Set(entry(t, "broken", `{apiCall: {}}`))
		s.Set(entry(t, "b", `{apiCall: {urlPath: /version}}`))
		s.Set(entry(t, "a", `{apiCall: {urlPath: /version}}`))
		synctest.Wait()
		want := []string{
			"the GlobalContextEntry broken has a mistake: An External API call should either have Service or URLPath",
			"the GlobalContextEntry a has no data: there are 1 entries already, the limit of --maxGlobalContextEntries",
		}
		if !slices.Equal(failed, want) {
			t.Errorf("%q", failed)
		}
		if read(s, "b") != `"data"` || read(s, "a") != "error: "+want[1] || read(s, "broken") != "error: "+want[0] {
			t.Error(read(s, "b"), read(s, "a"), read(s, "broken"))
		}
		s.Delete("b")
		synctest.Wait()
		if got := read(s, "a"); got != `"data"` {
			t.Error("there is room now: ", got)
		}
		stop()
		synctest.Wait()
	})
}

// The pauses between retries are bounded: the data are current soon after the end of an outage, whatever the retry limit is.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		up := time.Now().Add(20 * time.Minute)
		s := started(ctx, Options{
			API: world.API(func(context.Context, world.APIRequest) (any, error) {
				if time.Now().Before(up) {
					return nil, errors.New("down")
				}
				return "data", nil
			}),
			Now: time.Now,
		})
		s.Set(entry(t, "slow", `{apiCall: {urlPath: /version, refreshInterval: 10m, retryLimit: 100}}`))
		s.Set(entry(t, "quick", `{apiCall: {urlPath: /version, refreshInterval: 2s, retryLimit: 100}}`))
		time.Sleep(time.Until(up))
		for _, c := range []struct {
			name  string
			after time.Duration
		}{{"quick", 2 * time.Second}, {"slow", longestOutage}} {
			time.Sleep(time.Until(up.Add(c.after)))
			synctest.Wait()
			if got := read(s, c.name); got != `"data"` {
				t.Errorf("%s, %s after the outage: %s", c.name, c.after, got)
			}
		}
		stop()
		synctest.Wait()
	})
}

// started returns a Store that runs until ctx is done.
func started(ctx context.Context, o Options) *Store {
	s := New(o)
	go func() { _ = s.Start(ctx, func(string) {})() }()
	return s
}
