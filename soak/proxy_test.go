package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// troubles are what the proxy does, one after the other, for a share of the time each.
var troubles = []string{"410", "403", "429", "cut watches", "no watches", "hanging discovery", "frozen", "stale lists"}

// troubled is a proxy of one replica before the API server. It counts lists and watches.
type troubled struct {
	proxy *httputil.ReverseProxy
	now   *atomic.Value // the trouble of now, a string; empty for none
	name  string

	mu    sync.Mutex
	asked map[string]map[int64]int // by source and minute
	lists map[string]stale
}

// stale is the answer to a list, which the proxy repeats.
type stale struct {
	header http.Header
	body   []byte
}

// sourceOf returns the list or watch of a request; empty for another request.
func sourceOf(r *http.Request) string {
	last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/api"):
		return ""
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		return "watch " + r.URL.Path
	case strings.HasSuffix(last, "s") && r.URL.Query().Get("continue") == "" && (r.URL.Query().Has("limit") || r.URL.Query().Has("resourceVersion")):
		return "list " + r.URL.Path
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (x *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	source := sourceOf(r)
	if source != "" && !strings.HasSuffix(source, "/leases") { // a ring lists these every two seconds
		x.mu.Lock()
		if x.asked[source] == nil {
			x.asked[source] = map[int64]int{}
		}
		x.asked[source][time.Now().Unix()/60]++
		x.mu.Unlock()
	}
	watch, leases := strings.HasPrefix(source, "watch "), strings.Contains(r.URL.Path, "/leases")
	discovery := r.Method == http.MethodGet && (strings.Count(strings.Trim(r.URL.Path, "/"), "/") < 2 && strings.HasPrefix(r.URL.Path, "/api") || strings.HasPrefix(r.URL.Path, "/apis/") && strings.Count(r.URL.Path, "/") < 4)
	configMaps := strings.HasSuffix(r.URL.Path, "/configmaps")
	switch now := x.now.Load().(string); {
	case leases && now != "frozen":
	case now == "410" && (r.URL.Query().Has("continue") || watch && r.URL.Query().Get("resourceVersion") != "" && rand.IntN(2) == 0):
		status(w, http.StatusGone, "Expired", "a fault for the test")
		return
	case now == "403" && configMaps && source != "":
		status(w, http.StatusForbidden, "Forbidden", "a fault for the test")
		return
	case now == "429" && rand.IntN(2) == 0:
		w.Header().Set("Retry-After", "1")
		status(w, http.StatusTooManyRequests, "TooManyRequests", "a fault for the test")
		return
	case now == "cut watches" && watch:
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		x.proxy.ServeHTTP(w, r.WithContext(ctx))
		return
	case now == "no watches" && watch && configMaps:
		status(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "a fault for the test")
		return
	case now == "hanging discovery" && discovery:
		x.hang(r, now)
	case now == "frozen":
		x.hang(r, now)
	case now == "stale lists" && strings.HasPrefix(source, "list ") && r.URL.Query().Get("resourceVersion") == "0":
		x.repeat(w, r)
		return
	}
	x.proxy.ServeHTTP(w, r)
}

// hang waits until the trouble is over, or the client has lost its patience.
func (x *troubled) hang(r *http.Request, trouble string) {
	for x.now.Load().(string) == trouble && r.Context().Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
}

// repeat answers with the first answer to the same list, as a server may whose cache is behind.
func (x *troubled) repeat(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	old, ok := x.lists[r.URL.String()+r.Header.Get("Accept")]
	x.mu.Unlock()
	if !ok {
		x.proxy.ServeHTTP(&copied{ResponseWriter: w, done: func(s stale) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.lists[r.URL.String()+r.Header.Get("Accept")] = s
		}}, r)
		return
	}
	maps.Copy(w.Header(), old.header)
	_, _ = w.Write(old.body)
}

// copied keeps an answer.
type copied struct {
	http.ResponseWriter
	body []byte
	done func(stale)
}

func (x *copied) Write(b []byte) (int, error) {
	x.body = append(x.body, b...)
	x.done(stale{x.Header().Clone(), slices.Clone(x.body)})
	return x.ResponseWriter.Write(b)
}

// busiest returns the largest number of requests of one source in a minute.
func (x *troubled) busiest() (source string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for s, minutes := range x.asked {
		for _, count := range minutes {
			if count > n {
				source, n = x.name+": "+s, count
			}
		}
	}
	return source, n
}

// reportPolicy reports ConfigMaps without a team.
const reportPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: team}
spec:
  background: true
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [calm, faults]}}]}
    validate: {failureAction: Audit, message: a team, pattern: {metadata: {labels: {team: "?*"}}}}
`

// Two background and two reports controllers reach the API server through proxies, which cause one trouble after the other; every ten seconds
// one of the controllers is killed. In the end everything is as after the same load without troubles, and every report is right; no source was
// listed or watched more than 60 times a minute.
func TestControllersThroughTroubles(t *testing.T) {
	const every = 10 * time.Second
	p := install(t)
	p.apply(workRole)
	p.start(2)
	calm := p.Start(t, devcluster.Background)
	p.workIn("calm")
	p.workLoad("calm", lasting(30*time.Second), func() {})
	p.idle()
	want, err := p.contents("calm")
	if err != nil {
		t.Fatal(err)
	}
	if err := calm.Stop(40 * time.Second); err != nil {
		t.Fatal(err)
	}

	now := &atomic.Value{}
	now.Store("")
	var proxies []*troubled
	var starts []func() *devcluster.Replica
	for _, component := range []string{devcluster.Background, devcluster.Background, devcluster.Reports, devcluster.Reports} {
		x := &troubled{now: now, name: component, asked: map[string]map[int64]int{}, lists: map[string]stale{}}
		kubeconfig := p.proxied("kyverno-"+component, func(proxy *httputil.ReverseProxy) http.Handler { x.proxy = proxy; return x })
		proxies = append(proxies, x)
		starts = append(starts, func() (r *devcluster.Replica) {
			for range 20 { // it may not become ready during a trouble
				if r, err = p.Ephor.Start(context.Background(), component, "--kubeconfig="+kubeconfig); err == nil {
					break
				}
			}
			if r != nil {
				p.Cleanup(func() { r.Kill() })
			}
			return r
		})
	}
	replicas := make([]*devcluster.Replica, len(starts))
	for i, start := range starts {
		if replicas[i] = start(); replicas[i] == nil {
			t.Fatal(err)
		}
	}
	p.apply(reportPolicy)
	p.workIn("faults")
	each := lasting(2 * time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	kills := 0
	running.Go(func() {
		for ctx.Err() == nil {
			for _, trouble := range troubles {
				now.Store(trouble)
				sleep(ctx, each*3/4)
				now.Store("")
				sleep(ctx, each/4)
			}
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			sleep(ctx, every)
			if now.Load().(string) == "frozen" {
				continue // no controller can start
			}
			i := kills % len(replicas)
			replicas[i].Kill()
			kills++
			if r := starts[i](); r != nil {
				replicas[i] = r
			}
		}
	})
	p.workLoad("faults", each*time.Duration(len(troubles)), func() {})
	stop()
	running.Wait()
	now.Store("")

	settled := p.idle()
	got, err := p.contents("faults")
	if err != nil {
		t.Fatal(err)
	}
	names := maps.Clone(want)
	maps.Copy(names, got)
	different := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if want[name] != got[name] {
			different++
			t.Logf("%s is %q, without troubles %q", name, got[name], want[name])
		}
	}
	wrong := -1
	suite.Until(t, "reports are right", func() error {
		text, err := p.wrongReports("faults")
		wrong = len(text)
		if err == nil && wrong > 0 {
			err = fmt.Errorf("%d reports are wrong: %s", wrong, strings.Join(text[:min(len(text), 5)], ", "))
		}
		return err
	})
	busiest, most := "", 0
	for _, x := range proxies {
		if source, n := x.busiest(); n > most {
			busiest, most = source, n
		}
	}
	figure(t, "controllers killed under load", kills, "every 10 s, one after the other", kills > 1)
	figure(t, fmt.Sprintf("of %d objects different from those without troubles", len(want)), different, "0", different == 0 && len(want) > times(100))
	figure(t, "reports that are missing, wrong or too many", wrong, "0", wrong == 0)
	figure(t, "most lists or watches of one source in a minute ("+busiest+")", most, "at most 60", most <= 60)
	tell(t, "all work was done after", settled.Round(100*time.Millisecond))
}

// wrongReports compares the reports about the ConfigMaps of a namespace with a fresh evaluation.
func (p *installation) wrongReports(ns string) (wrong []string, err error) {
	list, err := p.Client.CoreV1().ConfigMaps(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out, err := p.Try(p.T, "", "get", "policyreports", "-n", ns, "-o", "json")
	if err != nil {
		return nil, err
	}
	var reports struct {
		Items []struct {
			Scope   struct{ Name, UID string }
			Results []struct{ Policy, Result string }
		}
	}
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		return nil, err
	}
	results := map[string]string{}
	for _, r := range reports.Items {
		for _, e := range r.Results {
			if e.Policy == "team" {
				results[r.Scope.UID+" "+r.Scope.Name] += e.Result
			}
		}
	}
	for i := range list.Items {
		c := &list.Items[i]
		id, want := string(c.UID)+" "+c.Name, "fail"
		if c.Labels["team"] != "" {
			want = "pass"
		}
		if results[id] != want {
			wrong = append(wrong, fmt.Sprintf("%s has %q, want %q", c.Name, results[id], want))
		}
		delete(results, id)
	}
	for id := range results {
		wrong = append(wrong, id+" does not exist")
	}
	return wrong, nil
}

// sleep waits, until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
