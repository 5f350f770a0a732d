package http1

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// balanced sends each request to the next endpoint, and keeps the connections of each, as an API server does with the feature
// WebhookRoundTripLoadBalancing (Kubernetes 1.37). Earlier ones choose an endpoint for each connection.
type balanced struct {
	next      http.RoundTripper
	mu        sync.Mutex
	endpoints []string
	turn      int
}

func (b *balanced) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.turn++
	host := b.endpoints[b.turn%len(b.endpoints)]
	b.mu.Unlock()
	r = r.Clone(r.Context())
	r.Host, r.URL.Host = r.URL.Host, host
	return b.next.RoundTrip(r)
}

func (b *balanced) remove(endpoint string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endpoints = slices.DeleteFunc(b.endpoints, func(e string) bool { return e == endpoint })
}

// Requests of an API server that balances each of them are spread evenly over the replicas, on about as many connections to each as
// there are requests at a time. A replica that drains as Server.Run of package admission does fails none of them.
func TestBalancedRequests(t *testing.T) {
	const clients, requests = 8, 120
	type replica struct {
		address  string
		kept     *Handler
		accepted *atomic.Int32
		answered atomic.Int32
		draining atomic.Bool
	}
	var replicas [3]*replica
	b := &balanced{next: &http.Transport{MaxIdleConnsPerHost: 25}}
	for i := range replicas {
		r := &replica{}
		r.address, r.kept, r.accepted = serve(t, func(w http.ResponseWriter, q *http.Request) {
			if r.draining.Load() {
				w.Header().Set("Connection", "close")
			}
			if q.Host != "kyverno-svc.kyverno.svc:443" {
				http.Error(w, q.Host, http.StatusBadRequest)
				return
			}
			r.answered.Add(1)
			echo(w, q)
		}, nil)
		replicas[i], b.endpoints = r, append(b.endpoints, r.address)
	}
	client := &http.Client{Transport: b, Timeout: time.Minute}
	round := func() {
		t.Helper()
		var done sync.WaitGroup
		for range clients {
			done.Go(func() {
				for range requests {
					res, err := client.Post("http://kyverno-svc.kyverno.svc:443/validate/fail", "application/json", strings.NewReader("review"))
					if err != nil {
						t.Error(err)
						return
					}
					body, _ := io.ReadAll(res.Body)
					res.Body.Close()
					if res.StatusCode != http.StatusOK {
						t.Errorf("%s: %s", res.Status, body)
					}
				}
			})
		}
		done.Wait()
	}
	round()
	for i, r := range replicas {
		if n := r.answered.Load(); n != clients*requests/3 {
			t.Errorf("replica %d answered %d of %d requests", i, n, clients*requests)
		}
		if n := r.accepted.Load(); n > 2*clients { // a client dials while another one returns its connection
			t.Errorf("replica %d has %d connections for %d requests at a time", i, n, clients)
		}
	}
	// The first replica drains: it answers and ends each connection until it is no endpoint any more.
	gone := replicas[0]
	gone.draining.Store(true)
	down := make(chan error, 1)
	var once sync.Once
	before := gone.answered.Load()
	b.next = afterwards{b.next, func() {
		if gone.answered.Load() >= before+clients {
			once.Do(func() {
				b.remove(gone.address)
				go func() { down <- gone.kept.Shutdown(t.Context()) }()
			})
		}
	}}
	round()
	if err := <-down; err != nil {
		t.Error(err)
	}
	if n := gone.kept.inUse(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// afterwards calls f after each request.
type afterwards struct {
	http.RoundTripper
	f func()
}

func (a afterwards) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.RoundTripper.RoundTrip(r)
	a.f()
	return res, err
}
