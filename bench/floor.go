package main

import (
	"fmt"
	"time"

	"ephor.invalid/ephor/bench/load"
)

const (
	connections   = 8
	floorRounds   = 7
	floorRequests = 8000 // in each round
)

// floor measures the classic policies of examples/.
func (b *bench) floor() error { return b.floorOf("floor", classicPolicies, 2.0, 2.0) }

// celFloor measures the same controls in CEL.
func (b *bench) celFloor() error { return b.floorOf("cel", celPolicies, 1.5, 2.0) }

// floorOf sends the same review to our admission process and to a no-op webhook, in interleaved rounds, and compares the
// CPU time of the two server processes. The targets are those of a good and of a bad Pod.
func (b *bench) floorOf(name, folder string, goodTarget, badTarget float64) error {
	noop, stop, err := load.StartNoop(b.root, b.dir, connections)
	if err != nil {
		return err
	}
	defer stop()
	c, ours, err := b.startAdmission(folder)
	if err != nil {
		return err
	}
	defer c.Stop()
	good, bad := load.Review(load.Pod("shop", false)), load.Review(load.Pod("shop", true))
	cases := []struct {
		name    string
		server  *load.Server
		body    []byte
		allowed bool
	}{
		{"no-op", noop, good, true},
		{"ephor, good Pod", ours, good, true},
		{"ephor, bad Pod", ours, bad, false},
	}
	got := make([][]load.Round, len(cases))
	for i := range floorRounds + 1 {
		for k, c := range cases {
			r, err := c.server.Round(floorRequests, load.Question{Body: c.body, Allowed: c.allowed})
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
		cpu[k] = load.Median(column(got[k], func(r load.Round) time.Duration { return r.CPU }))
		fmt.Printf("%-16s %7.0f requests/s  p50 %6.2f ms  p99 %6.2f ms  CPU %5.0f µs per request\n", c.name,
			load.Median(column(got[k], func(r load.Round) float64 { return r.PerSecond })),
			ms(load.Median(column(got[k], func(r load.Round) time.Duration { return r.Percentile(50) }))),
			ms(load.Median(column(got[k], func(r load.Round) time.Duration { return r.Percentile(99) }))), float64(cpu[k].Nanoseconds())/1000)
	}
	goodRatio, badRatio := float64(cpu[1])/float64(cpu[0]), float64(cpu[2])/float64(cpu[0])
	b.row(name+"-good", "x", goodRatio, goodTarget)
	b.row(name+"-bad", "x", badRatio, badTarget)
	fmt.Printf("%s ratio: good %.2f bad %.2f\n", name, goodRatio, badRatio)
	return nil
}

func column[T any](rounds []load.Round, f func(load.Round) T) []T {
	out := make([]T, len(rounds))
	for i, r := range rounds {
		out[i] = f(r)
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
