package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

const (
	floorRounds   = 7
	floorRequests = 8000 // per round
)

// floor sends the same review to our admission process and to a no-op webhook, in interleaved rounds, and compares the
// CPU time of the two server processes.
func (b *bench) floor() error {
	noop, stop, err := b.startNoop()
	if err != nil {
		return err
	}
	defer stop()
	c, ours, err := b.startAdmission(filepath.Join(b.root, "examples", "pod-security"))
	if err != nil {
		return err
	}
	defer c.Stop()
	good, bad := review(pod("shop", false)), review(pod("shop", true))
	cases := []struct {
		name    string
		server  *server
		body    []byte
		allowed bool
	}{
		{"no-op", noop, good, true},
		{"ephor, good Pod", ours, good, true},
		{"ephor, bad Pod", ours, bad, false},
	}
	got := make([][]round, len(cases))
	for i := range floorRounds + 1 {
		for k, c := range cases {
			r, err := c.server.round(floorRequests, c.body, c.allowed)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if i > 0 { // the first round only warms up
				got[k] = append(got[k], r)
			}
		}
	}
	fmt.Printf("one AdmissionReview of %d bytes, %d keep-alive connections, %d rounds of %d requests, medians\n", len(good), connections, floorRounds, floorRequests)
	cpu := make([]time.Duration, len(cases))
	for k, c := range cases {
		cpu[k] = median(column(got[k], func(r round) time.Duration { return r.cpu }))
		fmt.Printf("%-16s %7.0f requests/s  p50 %6.2f ms  p99 %6.2f ms  CPU %5.0f µs per request\n", c.name,
			median(column(got[k], func(r round) float64 { return r.perSecond })),
			ms(median(column(got[k], func(r round) time.Duration { return r.p50 }))),
			ms(median(column(got[k], func(r round) time.Duration { return r.p99 }))), float64(cpu[k].Nanoseconds())/1000)
	}
	goodRatio, badRatio := float64(cpu[1])/float64(cpu[0]), float64(cpu[2])/float64(cpu[0])
	b.row("floor-good", "x", goodRatio, 2.0)
	b.row("floor-bad", "x", badRatio, 2.0)
	fmt.Printf("floor ratio: good %.2f bad %.2f\n", goodRatio, badRatio)
	return nil
}

func column[T any](rounds []round, f func(round) T) []T {
	out := make([]T, len(rounds))
	for i, r := range rounds {
		out[i] = f(r)
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// startNoop builds and starts the no-op webhook.
func (b *bench) startNoop() (*server, func(), error) {
	bin := filepath.Join(b.dir, "noop")
	build := exec.Command("go", "build", "-o", bin, "./bench/noop")
	build.Dir, build.Stderr = b.root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, nil, fmt.Errorf("build the no-op webhook: %w", err)
	}
	port, err := devcluster.FreePort()
	if err != nil {
		return nil, nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(bin, "-addr", addr)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() { cmd.Process.Kill(); cmd.Wait() }
	s := newServer("https://"+addr+"/validate", cmd.Process.Pid)
	if err := s.awaitAnswer(review(pod("shop", false))); err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

// awaitAnswer waits until the server answers a review.
func (s *server) awaitAnswer(body []byte) error {
	var err error
	for range 100 {
		if _, err = post(s.clients[0], s.url, body); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
