package main

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

const connections = 8

// round is what one round of requests gave.
type round struct {
	perSecond float64
	p50, p99  time.Duration
	cpu       time.Duration // of the server process, per request
}

// client holds one keep-alive connection over HTTP/1.1, so that `connections` clients are as many connections.
func newClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // both servers make their own certificate
		MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}
}

// server is a running process that answers reviews.
type server struct {
	url     string
	pid     int
	clients []*http.Client
}

func newServer(url string, pid int) *server {
	s := &server{url: url, pid: pid}
	for range connections {
		s.clients = append(s.clients, newClient())
	}
	return s
}

// post sends one review and returns whether it was allowed.
func post(c *http.Client, url string, body []byte) (allowed bool, err error) {
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

// round sends n requests over all connections. Every answer is checked: a server that answers wrongly is not measured.
func (s *server) round(n int, body []byte, wantAllowed bool) (round, error) {
	before, err := cpuTime(s.pid)
	if err != nil {
		return round{}, err
	}
	var mu sync.Mutex
	var times []time.Duration
	var errs []error
	var wg sync.WaitGroup
	start := time.Now()
	for _, c := range s.clients {
		wg.Go(func() {
			mine := make([]time.Duration, 0, n/connections)
			var failed error
			for range n / connections {
				t := time.Now()
				allowed, err := post(c, s.url, body)
				if err == nil && allowed != wantAllowed {
					err = fmt.Errorf("%s: allowed is %v, want %v", s.url, allowed, wantAllowed)
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
		return round{}, err
	}
	after, err := cpuTime(s.pid)
	if err != nil {
		return round{}, err
	}
	slices.Sort(times)
	return round{
		perSecond: float64(len(times)) / elapsed.Seconds(),
		p50:       times[len(times)/2], p99: times[len(times)*99/100],
		cpu: (after - before) / time.Duration(len(times)),
	}, nil
}

func median[T int64 | float64 | time.Duration](v []T) T {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
