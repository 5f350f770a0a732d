package dashboard

import (
	"fmt"
	"testing"
	"time"
)

func every(string) bool { return true }

// However long it runs, there are few samples, which cover the time since the start at equal intervals.
func TestTrendReachesBack(t *testing.T) {
	tr := newTrend(0)
	start := time.Unix(0, 0)
	at, next := start, firstInterval
	for i := range 20_000 {
		next = tr.add(at, map[string]tally{"a": {i}})
		at = at.Add(next)
	}
	got := tr.sum(every)
	if len(got) > maxSamples || len(got) < maxSamples/2 || !got[0].at.Equal(start) || got[0].counts[0] != 0 {
		t.Fatalf("%d samples from %v", len(got), got[0])
	}
	for i := 1; i < len(got); i++ {
		if d := got[i].at.Sub(got[i-1].at); d > next || got[i].counts[0] <= got[i-1].counts[0] {
			t.Errorf("sample %d after %s: %v", i, d, got[i].counts)
		}
	}
	if covered := got[len(got)-1].at.Sub(start); covered < at.Sub(start)*9/10 {
		t.Errorf("only %s of %s", covered, at.Sub(start))
	}
}

// Each namespace has its own series. It begins with zeros if the namespace was added later, and is removed long after the namespace.
func TestTrendByNamespace(t *testing.T) {
	tr := newTrend(0)
	at := time.Unix(0, 0)
	tr.add(at, map[string]tally{"a": {1}})
	tr.add(at, map[string]tally{"a": {2}, "b": {5}})
	tr.add(at, map[string]tally{"b": {6}})
	var got []int
	for _, ns := range []string{"a", "b"} {
		for _, s := range tr.sum(func(name string) bool { return name == ns }) {
			got = append(got, s.counts[0])
		}
	}
	if fmt.Sprint(got) != "[1 2 0 0 5 6]" {
		t.Error(got)
	}
	for range 3 * maxSamples {
		tr.add(at, map[string]tally{"b": {6}})
	}
	tr.series["a"][0] = point{} // as once its samples have been thinned out
	tr.halve()
	if _, ok := tr.series["a"]; ok || len(tr.series["b"]) != len(tr.times) {
		t.Errorf("%d series", len(tr.series))
	}
}

// Many namespaces have fewer samples.
func TestTrendIsBounded(t *testing.T) {
	tr := newTrend(0)
	totals := map[string]tally{}
	for i := range 5000 {
		totals[fmt.Sprint(i)] = tally{1}
	}
	for range 300 {
		tr.add(time.Unix(0, 0), totals)
	}
	if n := len(tr.times) * len(tr.series); n > maxPoints || len(tr.times) < 2 {
		t.Errorf("%d samples of %d namespaces", len(tr.times), len(tr.series))
	}
}
