package soak

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/lifecycle"
)

// 50,000 reviews arrive over 100 connections, a tenth of them for violating Pods, and the no-op webhook receives as many, in turns of a
// tenth each. Metrics are served and events are written, as in any installation.
func TestReviews(t *testing.T) {
	const connections, tenths = 100, 10
	reviews := times(50_000) / tenths
	p := install(t)
	replica := p.start(1, devcluster.LongPaths...)[0]
	started := time.Now()
	p.podSecurity()
	suite.Until(p.T, "the policies are enforced", p.podClient(1).enforced)
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	noop, stop, err := load.StartNoop(root, t.TempDir(), connections)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ours := load.NewServer(p.reviews(replica), replica.PID(), connections)
	clean := load.Question{Body: load.Review(load.Pod("shop", false)), Allowed: true}
	bad := load.Question{Body: load.Review(load.Pod("shop", true))}
	var mixed, allowed []load.Question
	for range 9 {
		mixed = append(mixed, clean)
	}
	mixed, allowed = append(mixed, bad), []load.Question{clean}

	time.Sleep(time.Until(started.Add(lifecycle.StartTime))) // until then it collects more often
	var mine, theirs []time.Duration
	var ratios, resident []float64
	for i := range tenths + 1 { // the first round only warms up
		n, err := noop.Round(reviews, allowed...)
		if err != nil {
			t.Fatal(err)
		}
		finish := watchMemory(t, replica.PID())
		r, err := ours.Round(reviews, mixed...)
		if err != nil {
			t.Fatal(err)
		}
		mb := finish()
		t.Logf("round %2d: no-op %5.0f/s p99 %s CPU %s; ephor %5.0f/s p99 %s CPU %s, %.0f MB", i, n.PerSecond, n.Percentile(99), n.CPU,
			r.PerSecond, r.Percentile(99), r.CPU, mb)
		if i == 0 {
			continue
		}
		theirs, mine = append(theirs, n.Times...), append(mine, r.Times...)
		ratios, resident = append(ratios, float64(r.CPU)/float64(n.CPU)), append(resident, mb)
	}
	// As in `make bench`: eight connections, clean Pods only.
	var quiet []float64
	few, fewOurs := load.NewServer(noop.URL, noop.PID, 8), load.NewServer(ours.URL, ours.PID, 8)
	for range 5 {
		n, err := few.Round(times(8000), clean)
		if err != nil {
			t.Fatal(err)
		}
		r, err := fewOurs.Round(times(8000), clean)
		if err != nil {
			t.Fatal(err)
		}
		quiet = append(quiet, float64(r.CPU)/float64(n.CPU))
	}
	if err := suite.Alive(replica); err != nil {
		t.Error(err)
	}
	slices.Sort(mine)
	slices.Sort(theirs)
	figure(t, fmt.Sprintf("%d reviews over %d connections, errors", len(mine), connections), 0, "0", len(mine) == tenths*reviews)
	noop99, ours99 := load.Percentile(theirs, 99), load.Percentile(mine, 99)
	tell(t, "p99 of the no-op", noop99.Round(100*time.Microsecond))
	tell(t, "p99", ours99.Round(100*time.Microsecond))
	slower := float64(ours99) / float64(noop99)
	figure(t, "p99 beside the no-op's", fmt.Sprintf("%.1f x", slower), "at most 6 x", slower <= 6)
	first, last := resident[0], resident[len(resident)-1]
	figure(t, "memory, last tenth beside the first after warm-up", fmt.Sprintf("%.2f x", last/first), "at most 1.1 x", last <= 1.1*first)
	most := slices.Max(resident)
	figure(t, "memory, the most", fmt.Sprintf("%.0f MB", most), "at most 150 MB", most <= 150)
	figure(t, "CPU per review beside the no-op's, a tenth violating", fmt.Sprintf("%.2f x", median(ratios)), "at most 2.0 x", median(ratios) <= 2)
	figure(t, "CPU per review beside the no-op's, 8 connections, clean", fmt.Sprintf("%.2f x", median(quiet)), "at most 2.0 x", median(quiet) <= 2)
}

// watchMemory reads the resident memory of a process until the returned function is called, which returns the maximum.
func watchMemory(t *testing.T, pid int) (finish func() float64) {
	var stop atomic.Bool
	most := make(chan float64)
	go func() {
		top := 0.0
		for !stop.Load() {
			if mb, err := load.ResidentMB(pid); err == nil {
				top = max(top, mb)
			}
			time.Sleep(50 * time.Millisecond)
		}
		most <- top
	}()
	return func() float64 {
		t.Helper()
		stop.Store(true)
		return <-most
	}
}
