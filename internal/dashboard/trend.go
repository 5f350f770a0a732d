package dashboard

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// The trend begins with one sample per firstInterval. If there are too many, every second one is removed and the interval doubles, so the
// trend always covers the time since the start.
const (
	firstInterval = 10 * time.Second
	maxSamples    = 240
	maxPoints     = 400_000 // samples times namespaces, some 20 bytes each
)

// point counts the results of a namespace at one time.
type point [statuses]int32

// trend holds the numbers of results over time, for each namespace, since not every user may see all of them.
type trend struct {
	mu       sync.Mutex
	interval time.Duration
	times    []time.Time
	series   map[string][]point // each has the length of times
}

// newTrend returns a trend with this initial interval; firstInterval if it is zero.
func newTrend(interval time.Duration) *trend {
	return &trend{interval: cmp.Or(interval, firstInterval), series: map[string][]point{}}
}

// run takes samples until ctx is done.
func (t *trend) run(ctx context.Context, now func() time.Time, totals func() map[string]tally) {
	for {
		next := t.add(now(), totals())
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// add adds a sample and returns when the next one is due.
func (t *trend) add(at time.Time, totals map[string]tally) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ns := range totals {
		if t.series[ns] == nil {
			t.series[ns] = make([]point, len(t.times))
		}
	}
	t.times = append(t.times, at)
	for ns := range t.series {
		t.series[ns] = append(t.series[ns], pointOf(totals[ns]))
	}
	for len(t.times) > 2 && (len(t.times) > maxSamples || len(t.times)*len(t.series) > maxPoints) {
		t.halve()
	}
	return t.interval
}

// halve keeps every second sample, beginning with the first, and removes namespaces without results.
func (t *trend) halve() {
	t.interval *= 2
	t.times = everySecond(t.times)
	for ns, points := range t.series {
		points = everySecond(points)
		empty := true
		for _, p := range points {
			empty = empty && p == point{}
		}
		if t.series[ns] = points; empty {
			delete(t.series, ns)
		}
	}
}

// everySecond returns a new list, so that the longer one can be freed.
func everySecond[T any](all []T) []T {
	out := make([]T, 0, len(all)/2+1)
	for i := 0; i < len(all); i += 2 {
		out = append(out, all[i])
	}
	return out
}

func pointOf(t tally) (p point) {
	for i, n := range t {
		p[i] = int32(n)
	}
	return p
}

// sample is one point of the trend as it is shown.
type sample struct {
	at     time.Time
	counts tally
}

// sum adds up the wanted namespaces.
func (t *trend) sum(wanted func(namespace string) bool) []sample {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]sample, len(t.times))
	for i, at := range t.times {
		out[i].at = at
	}
	for ns, points := range t.series {
		if !wanted(ns) {
			continue
		}
		for i, p := range points {
			for s, n := range p {
				out[i].counts[s] += int(n)
			}
		}
	}
	return out
}
