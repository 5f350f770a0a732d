package dashboard

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compliance"
)

func all(string) bool { return true }

// Changed and deleted reports no longer count with their old results.
func TestIndexFollows(t *testing.T) {
	x := newIndex()
	put := func(ns, name string, results ...string) {
		x.put(reportKey{ns, name}, entriesOf(decoded(ns, name, "Pod", results...)))
	}
	fails := func(want int) {
		t.Helper()
		if got := x.summary(&query{sees: all}).Totals.Fail; got != want {
			t.Errorf("%d failures, want %d", got, want)
		}
	}
	put("a", "one", "fail", "fail")
	put("a", "two", "fail")
	put("", "one", "fail")
	fails(4)
	put("a", "one", "pass")
	fails(2)
	x.remove(reportKey{"a", "two"})
	x.remove(reportKey{"a", "never"})
	fails(1)
	x.retain(false, map[reportKey]bool{}) // the list of the namespaced kind is empty
	fails(1)
	x.retain(true, map[reportKey]bool{})
	if n, full := x.state(); n != 0 || full || x.bytes != 0 {
		t.Errorf("%d reports, %d bytes are left", n, x.bytes)
	}
}

// A new list of one kind does not hide that reports of the other one are missing.
func TestIndexStaysFull(t *testing.T) {
	x := newIndex()
	x.limit = 0
	x.begin(false)
	x.put(reportKey{"a", "one"}, entriesOf(decoded("a", "one", "Pod", "fail")))
	x.begin(true)
	if _, full := x.state(); !full {
		t.Error("a report is missing, and the index is not full")
	}
	x.begin(false)
	if _, full := x.state(); full {
		t.Error("the index is full, although no report is missing")
	}
}

// A report of another producer may be about several resources.
func TestIndexSeveralResources(t *testing.T) {
	x := newIndex()
	r := decoded("a", "many", "Pod", "fail", "pass", "fail", "pass")
	for i := range r.Results {
		r.Results[i].Resource.Name = fmt.Sprint("pod", i%2)
	}
	x.put(reportKey{"a", "many"}, entriesOf(r))
	found, n := x.find(&query{sees: all, filter: compliance.Filter{Results: []compliance.Status{"fail"}}})
	if len(found) != 1 || n != 2 || found[0].name != "pod0" || found[0].position().Report != "many" {
		t.Errorf("%d entries with %d results", len(found), n)
	}
}

// Results are sorted, and continuing from any position returns the rest.
func TestFindContinues(t *testing.T) {
	x := newIndex()
	for i := range 50 {
		ns, name := fmt.Sprint("ns", i%3), fmt.Sprintf("pod%02d", (i*7)%50)
		x.put(reportKey{ns, name}, entriesOf(decoded(ns, name, "Pod", "fail")))
	}
	found, _ := x.find(&query{sees: all})
	for i, e := range found {
		if i > 0 && found[i-1].position().compare(e.position()) >= 0 {
			t.Fatalf("%+v comes before %+v", found[i-1].position(), e.position())
		}
		if got := indexAfter(found, e.position()); got != i+1 {
			t.Errorf("after %d comes %d", i, got)
		}
	}
	if got := indexAfter(found, position{Namespace: "ns1"}); found[got].namespace.Value() != "ns1" || found[got-1].namespace.Value() != "ns0" {
		t.Errorf("what is gone is no place to go on from: %d", got)
	}
}

// The index stays within its limit for any number of reports, and reports that something is missing.
func TestIndexIsBounded(t *testing.T) {
	x := newIndex()
	x.limit = 100_000
	for i := range 1000 {
		r := decoded("a", fmt.Sprint("r", i), strings.Repeat("K", 1<<14), "fail", "fail")
		r.Results[0].Policy = strings.Repeat("p", 1<<14)
		x.put(reportKey{"a", r.Name}, entriesOf(r))
	}
	n, full := x.state()
	if n == 0 || n == 1000 || !full || x.bytes > x.limit {
		t.Errorf("%d reports, full %v, %d bytes", n, full, x.bytes)
	}
	if got := x.summary(&query{sees: all}).ByPolicy[1].Name; len(got) > maxName+len("…") {
		t.Errorf("a name of %d bytes", len(got))
	}
	x.begin(false)
	x.retain(false, map[reportKey]bool{})
	if n, full := x.state(); n != 0 || full {
		t.Errorf("%d reports, full %v", n, full)
	}
}

func big(reports, rules int) *index {
	x := newIndex()
	results := make([]string, rules)
	for i := range results {
		results[i] = []string{"pass", "pass", "pass", "fail", "skip"}[i%5]
	}
	for i := range reports {
		ns, name := fmt.Sprint("namespace-", i%100), fmt.Sprintf("deployment-7d9f8b6c5-%06d", i)
		x.put(reportKey{ns, fmt.Sprintf("0b8a2c9e-3f51-4d0e-9a77-%012d", i)}, entriesOf(decoded(ns, name, "Pod", results...)))
	}
	return x
}

// The size estimate that bounds the index approximates its memory.
func TestIndexSize(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	x := big(20_000, 18)
	taken := heap() - before
	t.Logf("20,000 reports of 18 rules take %.1f MB, measured as %.1f MB", float64(taken)/1e6, float64(x.bytes)/1e6)
	if taken > 3*x.bytes/2 {
		t.Errorf("%d bytes are taken for %d", taken, x.bytes)
	}
	runtime.KeepAlive(x)

	before = heap()
	x = newIndex()
	for i := range 100 {
		r := decoded("a", fmt.Sprint("r", i), "Pod", make([]string, 200)...)
		for j := range r.Results {
			one := &r.Results[j]
			one.Result, one.Policy, one.Rule = "fail", strings.Repeat("p", 500)+fmt.Sprint(i, j), strings.Repeat("r", 500)
		}
		x.put(reportKey{"a", r.Name}, entriesOf(r))
	}
	taken = heap() - before
	t.Logf("20,000 results of made-up policies take %.1f MB, measured as %.1f MB", float64(taken)/1e6, float64(x.bytes)/1e6)
	if taken > 3*x.bytes/2 || taken < x.bytes/2 {
		t.Errorf("%d bytes are taken for %d", taken, x.bytes)
	}
	x.retain(false, nil)
	if x.bytes != 0 || len(x.rules) != 0 {
		t.Errorf("%d bytes and %d rules of deleted reports are counted", x.bytes, len(x.rules))
	}
}

func BenchmarkSummary(b *testing.B) {
	x := big(5000, 18)
	b.ReportAllocs()
	for b.Loop() {
		x.summary(&query{sees: all})
	}
}

func BenchmarkFind(b *testing.B) {
	x := big(5000, 18)
	b.ReportAllocs()
	for b.Loop() {
		x.find(&query{sees: all, filter: compliance.Filter{Results: []compliance.Status{"fail"}}})
	}
}

func BenchmarkTotals(b *testing.B) {
	x := big(50_000, 18)
	b.ReportAllocs()
	for b.Loop() {
		x.totals()
	}
}
