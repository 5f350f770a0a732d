package load

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Round is the result of one round of requests.
type Round struct {
	PerSecond float64
	Times     []time.Duration // of every request, sorted
	CPU       time.Duration   // of the server process, per request
}

// Percentile of the times, of 100.
func (r Round) Percentile(of int) time.Duration { return Percentile(r.Times, of) }

// Percentile of sorted times, of 100.
func Percentile(times []time.Duration, of int) time.Duration { return times[len(times)*of/100] }

// NewClient returns a client with one keep-alive connection over HTTP/1.1, so n clients have n connections.
func NewClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // both servers create their own certificate
		MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}
}

// Server is a running process that answers reviews.
type Server struct {
	URL     string
	PID     int
	Metrics string // host:port of its metrics; empty for none
	clients []*http.Client
}

// NewServer returns a process that answers at url, and as many connections to it.
func NewServer(url string, pid, connections int) *Server {
	s := &Server{URL: url, PID: pid}
	for range connections {
		s.clients = append(s.clients, NewClient())
	}
	return s
}

// Ask sends one review and returns whether it was allowed.
func (s *Server) Ask(body []byte) (allowed bool, err error) { return Post(s.clients[0], s.URL, body) }

// Post sends one review and returns whether it was allowed.
func Post(c *http.Client, url string, body []byte) (allowed bool, err error) {
	resp, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s: %s: %s", url, resp.Status, answer)
	}
	var review struct {
		Response *struct{ Allowed bool }
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return false, err
	}
	if review.Response == nil {
		return false, fmt.Errorf("%s: no response in %s", url, answer)
	}
	return review.Response.Allowed, nil
}

// Question is a review with the expected answer.
type Question struct {
	Body    []byte
	Allowed bool
}

// Round sends n requests over all connections, cycling through the questions. It checks every answer: a server with
// wrong answers is not measured.
func (s *Server) Round(n int, questions ...Question) (Round, error) {
	before, err := CPUTime(s.PID)
	if err != nil {
		return Round{}, err
	}
	var mu sync.Mutex
	var times []time.Duration
	var errs []error
	var wg sync.WaitGroup
	each := n / len(s.clients)
	start := time.Now()
	for k, c := range s.clients {
		wg.Go(func() {
			mine := make([]time.Duration, 0, each)
			var failed error
			for i := range each {
				q := questions[(k+i)%len(questions)]
				t := time.Now()
				allowed, err := Post(c, s.URL, q.Body)
				if err == nil && allowed != q.Allowed {
					err = fmt.Errorf("%s: allowed is %v, want %v", s.URL, allowed, q.Allowed)
				}
				if err != nil {
					failed = err
					break
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
			errs = append(errs, failed)
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return Round{}, err
	}
	after, err := CPUTime(s.PID)
	if err != nil {
		return Round{}, err
	}
	slices.Sort(times)
	return Round{
		PerSecond: float64(len(times)) / elapsed.Seconds(), Times: times,
		CPU: (after - before) / time.Duration(len(times)),
	}, nil
}

// Median of what was measured several times.
func Median[T int64 | float64 | time.Duration](v []T) T {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
