package controller

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// leaseServer is an API server that keeps one Lease, without a socket. While it is silent, it answers nothing.
type leaseServer struct {
	mu      sync.Mutex
	lease   map[string]any
	version int
	silent  atomic.Bool
	late    atomic.Int64 // after which the next write is answered, in nanoseconds, before the silence begins; 0 for none
	renewed atomic.Int64 // Unix nanoseconds of the last write
}

// RoundTrip implements http.RoundTripper.
func (s *leaseServer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.silent.Load() {
		<-r.Context().Done()
		return
	}
	if r.Method != http.MethodGet {
		if late := s.late.Swap(0); late > 0 {
			defer func() { time.Sleep(time.Duration(late)); s.silent.Store(true) }()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet && s.lease == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	if r.Method != http.MethodGet {
		s.lease = nil
		_ = json.NewDecoder(r.Body).Decode(&s.lease)
		s.version++
		s.lease["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
		s.renewed.Store(time.Now().UnixNano())
	}
	_ = json.NewEncoder(w).Encode(s.lease)
}

func (s *leaseServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec, _ := s.lease["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// A leader whose API server does not answer, or answered the last renewal late, ends its rows before another process may lead, which is 6 × Retry
// after the last renewal.
func TestLeaderEndsBeforeItsLease(t *testing.T) {
	const retry = 200 * time.Millisecond
	for name, fail := range map[string]func(*leaseServer){
		"no answer":   func(s *leaseServer) { s.silent.Store(true) },
		"late answer": func(s *leaseServer) { s.late.Store(int64(7 * retry / 2)) },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { leaderEnds(t, retry, fail) }) })
	}
}

func leaderEnds(t *testing.T, retry time.Duration, fail func(*leaseServer)) {
	server := &leaseServer{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began, ended := make(chan struct{}), make(chan time.Time, 1)
	var running sync.WaitGroup
	running.Go(func() {
		_ = server.election("a", retry).Run(ctx, func(ctx context.Context) {
			close(began)
			<-ctx.Done()
			ended <- time.Now()
		})
	})
	<-began
	fail(server)
	at := <-ended
	last := time.Unix(0, server.renewed.Load())
	if after := at.Sub(last); after > 5*retry {
		t.Errorf("the rows ended %s after the last renewal; want at most %s", after, 5*retry)
	}
	stop()
	running.Wait()
}

// The lease is released after the rows have ended, never before.
func TestLeaseIsReleasedAfterTheRows(t *testing.T) {
	server := &leaseServer{}
	ctx, stop := context.WithCancel(t.Context())
	during := make(chan string, 1)
	err := server.election("a", 200*time.Millisecond).Run(ctx, func(lead context.Context) {
		stop()
		<-lead.Done()
		during <- server.holder()
	})
	if err != nil {
		t.Fatal(err)
	}
	if holder := <-during; holder != "a" {
		t.Errorf("%q holds the lease while the rows of a end", holder)
	}
	if holder := server.holder(); holder != "" {
		t.Errorf("%q holds the lease after the end", holder)
	}
}

func (s *leaseServer) election(identity string, retry time.Duration) *Election {
	return &Election{
		Config: &rest.Config{Transport: s, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Lease: "l", Namespace: "n",
		Identity: identity, Retry: retry, Log: quiet,
	}
}
