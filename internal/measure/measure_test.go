package measure

import (
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "60s": time.Minute, "-5s": -5 * time.Second, "0": 0, "-0": 0, "+0": 0, "0s": 0, "1.5h": 90 * time.Minute,
		"10ms": 10 * time.Millisecond, "1µs": time.Microsecond, ".5s": 500 * time.Millisecond,
	} {
		if got, ok := Duration(s); !ok || got != want {
			t.Errorf("Duration(%q) = %v %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "60", "10", "00", "1Gi", "h", "hours", "1d", "abc0", "-", "1h ", "-10", strings.Repeat("1s", 200)} {
		if d, ok := Duration(s); ok {
			t.Errorf("Duration(%q) = %v, want none", s, d)
		}
	}
}

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1Gi", "1024Mi", 0}, {"100m", "0.1", 0}, {"1", "1000m", 0}, {"500m", "1", -1}, {"1e3", "1k", 0}, {"-1", "1", -1},
		{"1.2", "1.10", 1}, {"2Gi", "1025Mi", 1}, {"5E", "5000P", 0},
	} {
		a, okA := ParseQuantity(c.a)
		b, okB := ParseQuantity(c.b)
		if !okA || !okB || a.Cmp(b) != c.want || b.Cmp(a) != -c.want {
			t.Errorf("%q against %q: %v %v %v, want %d", c.a, c.b, okA, okB, a.Cmp(b), c.want)
		}
	}
	for _, s := range []string{"", "Gi", "abc", "1h", "1.2.3", "1 Gi", "1e9999", "1E-100000000", "nginx"} {
		if _, ok := ParseQuantity(s); ok {
			t.Errorf("ParseQuantity(%q) succeeds", s)
		}
	}
}

// TestHugeExponentsEnd tests the running time: comparing 1e999999999 with 1 as decimals would never end.
func TestHugeExponentsEnd(t *testing.T) {
	b := NewBound("1")
	for _, s := range []string{"1e999999999", "1E999999999", "1e-2147483648", "1e+2147483647"} {
		if _, ok := b.Compare(s); ok {
			t.Errorf("%s compares", s)
		}
	}
	if sign, ok := b.Compare("1e999"); !ok || sign != 1 {
		t.Errorf("1e999 against 1: %d %v", sign, ok)
	}
}

func TestNumberAndVersion(t *testing.T) {
	if f, ok := Number("-1.5e3"); !ok || f != -1500 {
		t.Errorf("Number = %v %v", f, ok)
	}
	for _, s := range []string{"", "x", "1Gi", "NaN", "Inf"} {
		if f, ok := Number(s); ok {
			t.Errorf("Number(%q) = %v", s, f)
		}
	}
	old, ok1 := ParseVersion("1.9.0")
	recent, ok2 := ParseVersion("1.10.0")
	if !ok1 || !ok2 || recent.Cmp(old) != 1 {
		t.Error("1.10.0 follows 1.9.0")
	}
	for _, s := range []string{"v1.10.0", "1.10", "1.10.x", "1.2.3.4", ""} {
		if _, ok := ParseVersion(s); ok {
			t.Errorf("ParseVersion(%q) succeeds", s)
		}
	}
}

func TestBound(t *testing.T) {
	for _, c := range []struct {
		bound, value string
		sign         int
		ok           bool
	}{
		{"1h", "3600s", 0, true},   // durations take precedence
		{"1h", "3600", 0, false},   // a bare number is not a duration, and 1h is not a quantity
		{"60", "1m", -1, true},     // quantities 60 and 0.001
		{"1m", "60s", 0, true},     // durations
		{"1Gi", "1024Mi", 0, true}, //
		{"0", "0s", 0, true},
		{"1.2.0", "1.2.3", 0, false},
		{"abc", "abc", 0, false},
		{"", "", 0, false},
	} {
		b := NewBound(c.bound)
		if sign, ok := b.Compare(c.value); sign != c.sign || ok != c.ok {
			t.Errorf("bound %q, value %q: %d %v, want %d %v", c.bound, c.value, sign, ok, c.sign, c.ok)
		}
	}
	b := NewBound("5")
	if s, ok := b.CompareFloat(5.5); s != 1 || !ok {
		t.Errorf("5.5 against 5: %d %v", s, ok)
	}
	if s, ok := b.CompareFloat(5); s != 0 || !ok {
		t.Errorf("5.0 against 5: %d %v", s, ok)
	}
	b = NewBound("1h")
	if s, ok := b.CompareInt(0); s != -1 || !ok {
		t.Errorf("0 against 1h: %d %v", s, ok)
	}
	if _, ok := b.CompareInt(1); ok {
		t.Error("1 does not compare with 1h")
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		text    string
		inside  []string
		outside []string
	}{
		{"1-10", []string{"1", "5.5", "10"}, []string{"0", "10.1", "x", ""}},
		{"1!-10", []string{"0", "11"}, []string{"1", "5", "10", "x"}},
		{"+2-+4", []string{"2", "4"}, []string{"1", "5"}},
		{"-2-5", []string{"-2", "0"}, []string{"-3", "6"}},
		{"-10--8", []string{"-9"}, []string{"-7", "9"}},
		{"2.5-3.5", []string{"3", "2500m"}, []string{"2"}},
		{"100Mi!-1024Mi", []string{"1M", "2Gi"}, []string{"200Mi", "1Gi"}},
		{"1h-2h", []string{"90m"}, []string{"30m", "1"}},
	} {
		r, ok := ParseRange(c.text)
		if !ok {
			t.Errorf("%q is a range", c.text)
			continue
		}
		for _, s := range c.inside {
			if !r.Contains(s) {
				t.Errorf("%q does not contain %q", c.text, s)
			}
		}
		for _, s := range c.outside {
			if r.Contains(s) {
				t.Errorf("%q contains %q", c.text, s)
			}
		}
	}
	for _, s := range []string{"", "-", "5", "-5", "5.10.84-1", "a-b", "5-", "-5-", "1!10", "1--", "1-2-3", "v1-v2", "1-2 "} {
		if _, ok := ParseRange(s); ok {
			t.Errorf("%q is no range", s)
		}
	}
	r, _ := ParseRange("1-10")
	if !r.ContainsInt(10) || r.ContainsInt(11) || !r.ContainsFloat(2.5) || r.ContainsFloat(0.5) {
		t.Error("numbers in 1-10")
	}
}

func TestWordsDoNotAllocate(t *testing.T) {
	b, q := NewBound("1h"), NewBound("1Gi")
	if n := testing.AllocsPerRun(100, func() {
		b.Compare("nginx")
		q.Compare("512Mi")
		q.CompareInt(3)
		q.CompareFloat(3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzMeasure(f *testing.F) {
	for _, s := range []string{"1-10", "1Gi", "1e99", "-1.5h", "1.2.3", "100Mi!-1Gi", "0"} {
		f.Add(s, "5")
	}
	f.Fuzz(func(t *testing.T, s, v string) {
		Number(v)
		ParseVersion(v)
		b := NewBound(s)
		sign, ok := b.Compare(v)
		c := NewBound(v)
		if back, okBack := c.Compare(s); ok != okBack || sign != -back {
			t.Errorf("%q against %q: %d %v, other way %d %v", v, s, sign, ok, back, okBack)
		}
		if r, ok := ParseRange(s); ok {
			r.Contains(v)
		}
	})
}

func BenchmarkBound(b *testing.B) {
	q := NewBound("1Gi")
	b.Run("quantity", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q.Compare("512Mi")
		}
	})
	b.Run("word", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q.Compare("nginx")
		}
	})
}
