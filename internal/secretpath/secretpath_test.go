package secretpath

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/seal"
)

func key(t testing.TB, b byte) seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.Repeat([]byte{b}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// clock is a clock that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time          { return c.Time }
func (c *clock) advance(d time.Duration) { c.Time = c.Add(d) }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func newGuard(c *clock) *Guard { return &Guard{Overlap: time.Minute, Now: c.now} }

func TestSplit(t *testing.T) {
	s := strings.Repeat("0123456789abcdef", 4)
	for path, want := range map[string]string{
		"/" + s + "/validate/fail":      "/validate/fail",
		"/" + s + "/":                   "/",
		"/" + s + "/" + s + "/x":        "/" + s + "/x",
		"/validate/fail":                "",
		"/validate/fail/" + s:           "",
		"/" + s:                         "",
		"/" + s[1:] + "/x":              "",
		"/" + s + "0/x":                 "",
		"/" + strings.ToUpper(s) + "/x": "",
		"//" + s + "/x":                 "",
		"":                              "",
	} {
		segment, plain, ok := Split(path)
		if ok != (want != "") || ok && (plain != want || segment != s) || !ok && (plain != path || segment != "") {
			t.Errorf("%s: %q, %q, %v", path, segment, plain, ok)
		}
	}
}

func TestGuard(t *testing.T) {
	c := newClock()
	g := newGuard(c)
	first, second, other := NewEpoch(key(t, 1), "first"), NewEpoch(key(t, 1), "second"), NewEpoch(key(t, 2), "first")
	want := func(when, path string, v Verdict) {
		t.Helper()
		if plain, got := g.Prove(path); got != v || got.Secret() && plain != "/validate/fail" {
			t.Errorf("%s: %s is %s (%q), want %s", when, path, got, plain, v)
		}
	}
	const route = "/validate/fail"
	want("before there is a key", first.Path(route), Unknown)
	want("before there is a key", route, Missing)
	g.Set(first, nil, false)
	want("the first epoch", first.Path(route), Proved)
	want("the first epoch", second.Path(route), Unknown)
	want("another key", other.Path(route), Unknown)
	want("no segment", route, Missing)
	segment, _, _ := Split(first.Path(route))
	for _, moved := range []string{"/mutate/fail", "/validate", "/validate/fail/", "/validate/fail/finegrained/a/b", ""} {
		want("a segment that was moved", "/"+segment+moved, map[bool]Verdict{true: Unknown, false: Missing}[moved != ""])
	}

	g.Set(second, first, false)
	c.advance(24 * time.Hour)
	want("the last one, as long as configurations may carry it", first.Path(route), Ending)
	want("the new one", second.Path(route), Proved)
	g.Set(second, first, true)
	c.advance(time.Minute - 1)
	g.Set(second, first, true) // the same epochs once more
	want("retired", first.Path(route), Ending)
	c.advance(1)
	want("ended", first.Path(route), Unknown)
	g.Set(second, nil, false)
	want("gone", first.Path(route), Unknown)
	want("the new one", second.Path(route), Proved)

	// Another key, as after a loss of the Secret.
	third := NewEpoch(key(t, 3), "third")
	g.Set(third, nil, false)
	want("one that was never retired", second.Path(route), Ending)
	c.advance(time.Minute)
	want("one that was never retired, later", second.Path(route), Unknown)
}

func TestStanding(t *testing.T) {
	c := newClock()
	g := newGuard(c)
	g.Set(NewEpoch(key(t, 1), "first"), nil, false)
	g.Stand([]string{"/validate/fail"})
	c.advance(time.Hour)
	if plain, v := g.Prove("/validate/fail"); v != Standing || plain != "/validate/fail" {
		t.Errorf("a plain path that stands: %s", v)
	}
	if _, v := g.Prove("/validate/ignore"); v != Missing {
		t.Errorf("one that does not: %s", v)
	}
	g.Stand(nil)
	c.advance(30 * time.Second)
	g.Stand(nil)
	if _, v := g.Prove("/validate/fail"); v != Standing {
		t.Errorf("one that has just gone: %s", v)
	}
	c.advance(30 * time.Second)
	if _, v := g.Prove("/validate/fail"); v != Missing {
		t.Errorf("one that went a minute ago: %s", v)
	}
}

// A key that another one replaced before all configurations were written again still answers their paths: the API server calls no others.
func TestReplacedKey(t *testing.T) {
	c := newClock()
	g := newGuard(c)
	old, fresh := NewEpoch(key(t, 1), "a"), NewEpoch(key(t, 2), "b")
	verdict := func(e *Epoch) Verdict {
		_, v := g.Prove(e.Path("/validate/fail"))
		return v
	}
	g.Set(old, nil, false)
	g.Stand([]string{old.Path("/validate/fail"), old.Path("/mutate/fail")})
	g.Set(fresh, nil, false)
	g.Set(fresh, nil, false)
	c.advance(10 * time.Minute)
	g.Stand([]string{fresh.Path("/validate/fail"), old.Path("/mutate/fail")})
	c.advance(10 * time.Minute)
	if v := verdict(old); v != Ending {
		t.Errorf("while a configuration uses its key, a path is %s", v)
	}
	g.Stand([]string{fresh.Path("/validate/fail"), fresh.Path("/mutate/fail")})
	c.advance(59 * time.Second)
	if v := verdict(old); v != Ending {
		t.Errorf("just after the last configuration was written, its path is %s", v)
	}
	c.advance(2 * time.Second)
	g.Stand([]string{old.Path("/validate/fail")}) // written by a client that kept a copy
	if v := verdict(old); v != Unknown {
		t.Errorf("after the overlap, a path of the former key is %s", v)
	}
	if v := verdict(fresh); v != Proved {
		t.Errorf("a path of the key is %s", v)
	}
}

// A process that does not know an epoch yet reads it at the first request, but not for each of many.
func TestLate(t *testing.T) {
	c := newClock()
	g := newGuard(c)
	first, second := NewEpoch(key(t, 1), "first"), NewEpoch(key(t, 1), "second")
	g.Set(first, nil, false)
	reads := 0
	g.Reread = func() { reads++; g.Set(second, first, false) }
	if _, v := g.Prove(second.Path("/validate")); v != Proved || reads != 1 {
		t.Errorf("%s after %d reads", v, reads)
	}
	for range 1000 {
		g.Prove("/" + strings.Repeat("0", Size) + "/validate")
	}
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
	c.advance(2 * rereadEvery)
	g.Prove("/" + strings.Repeat("0", Size) + "/validate")
	if reads != 2 {
		t.Errorf("%d reads", reads)
	}
}

// A rotation step by step. The clock of the process that dated the epochs is an hour ahead.
func TestRotation(t *testing.T) {
	c := newClock()
	r := &Rotation{Period: time.Hour, Settle: 3 * time.Second, Overlap: time.Minute}
	e := Epochs{}.Begin("a", c.now())
	step := func(asked bool, want Step) {
		t.Helper()
		if got := r.Next(e, asked, c.now()); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	step(false, Step{Wait: time.Hour})
	c.advance(59 * time.Minute)
	step(false, Step{Wait: time.Minute})
	step(true, Step{Begin: true})
	c.advance(time.Minute)
	step(false, Step{Begin: true})
	e = e.Begin("b", c.now().Add(time.Hour))
	step(true, Step{Previous: true, Wait: 3 * time.Second}) // the second request waits for the first
	c.advance(3 * time.Second)
	step(true, Step{Retire: true, Wait: 3 * time.Second})
	c.advance(time.Hour) // while the configurations cannot be written
	step(false, Step{Retire: true, Wait: 3 * time.Second})
	e = e.Retire(c.now())
	step(true, Step{Wait: time.Minute})
	c.advance(59 * time.Second)
	step(true, Step{Wait: time.Second})
	c.advance(time.Second)
	step(true, Step{End: true})
	e = e.End()
	step(true, Step{Begin: true})
	if e.Current.Began = c.now().Add(2 * time.Hour); r.Next(e, false, c.now()) != (Step{Begin: true}) {
		t.Error("an epoch of the future lasts")
	}
}

// T20: however often calls fail, there is at most one new epoch in the time that the previous one is still accepted, and the paths of an epoch
// are accepted for at least that time.
func TestT20RotationsAreLimited(t *testing.T) {
	c := newClock()
	r := &Rotation{Period: time.Hour, Settle: 3 * time.Second, Overlap: time.Minute}
	e := Epochs{}.Begin("0", c.now())
	begun := 0
	for begin := c.now(); c.now().Sub(begin) < time.Hour; c.advance(time.Second) {
		switch step := r.Next(e, true, c.now()); {
		case step.Begin:
			begun++
			e = e.Begin(fmt.Sprint(begun), c.now())
		case step.End:
			e = e.End()
		case step.Retire:
			e = e.Retire(c.now())
		}
	}
	if most := int(time.Hour / (time.Minute + 3*time.Second)); begun == 0 || begun > most {
		t.Errorf("%d epochs in an hour, want at most %d", begun, most)
	}
}

func TestEpochs(t *testing.T) {
	c := newClock()
	e := Epochs{}.Begin("a", c.now()).Begin("b", c.now()).Retire(c.now())
	back, err := ParseEpochs(e.String())
	if err != nil || back.String() != e.String() || back.Previous == nil || back.Previous.Retired.IsZero() {
		t.Errorf("%s, %v", back, err)
	}
	for _, bad := range []string{"", "{}", `{"current":{"id":""}}`, `{"current":{"id":"a"},"previous":{}}`} {
		if _, err := ParseEpochs(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestNothingIsPrinted(t *testing.T) {
	e := NewEpoch(key(t, 'K'), "first")
	g := newGuard(newClock())
	g.Set(e, nil, false)
	if text := fmt.Sprintf("%v %+v %#v %v %+v", e, e, e, g, g); strings.Contains(text, "75 75 75") || strings.Contains(text, "KKKK") {
		t.Errorf("the key is printed: %s", text)
	}
}

func BenchmarkProve(b *testing.B) {
	g := newGuard(newClock())
	e := NewEpoch(key(b, 1), "first")
	g.Set(e, NewEpoch(key(b, 1), "last"), false)
	for name, path := range map[string]string{"proved": e.Path("/validate/fail"), "missing": "/validate/fail", "unknown": "/" + strings.Repeat("0", Size) + "/validate/fail"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Prove(path)
			}
		})
	}
}

// Only segments of an epoch are valid, and the plain path is the one that the segment was made for.
func FuzzProve(f *testing.F) {
	e := NewEpoch(key(f, 1), "first")
	g := newGuard(newClock())
	g.Set(e, nil, false)
	f.Add(e.Path("/validate/fail"))
	f.Add("/validate/fail")
	f.Add("/" + strings.Repeat("a", Size) + "/" + strings.Repeat("b", Size) + "/")
	f.Fuzz(func(t *testing.T, path string) {
		plain, v := g.Prove(path)
		if (v == Proved) != (v.Answered() && e.Path(plain) == path) {
			t.Errorf("%q: %s, %q", path, v, plain)
		}
		if strings.HasPrefix(path, "/") {
			if again, v := g.Prove(e.Path(path)); v != Proved || again != path {
				t.Errorf("the path made of %q: %s, %q", path, v, again)
			}
		}
		if _, rest, ok := Split(path); ok && path[:1+Size]+rest != path || !ok && rest != path {
			t.Errorf("%q is split into %q", path, rest)
		}
	})
}
