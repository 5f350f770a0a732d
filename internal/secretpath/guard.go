package secretpath

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Verdict is the result of checking a path.
type Verdict string

// The verdicts. Their texts are values of a metric's label.
const (
	// Proved: the segment belongs to the path.
	Proved Verdict = "proved"
	// Ending: the segment belongs to the path, and a newer epoch replaces its epoch.
	Ending Verdict = "ending"
	// Standing: the path has no segment, but a webhook configuration uses it without one, or did until recently.
	Standing Verdict = "plain"
	// Missing: the path has no segment.
	Missing Verdict = "missing"
	// Unknown: the segment does not belong to the path, or has expired.
	Unknown Verdict = "unknown"
	// Unserved: the path belongs to a family of policies that this program does not evaluate.
	Unserved Verdict = "unserved"
)

// Answered reports whether the server answers requests with this verdict.
func (v Verdict) Answered() bool { return v.Secret() || v == Standing }

// Secret reports whether the path has a valid segment.
func (v Verdict) Secret() bool { return v == Proved || v == Ending }

// Guard decides which paths the server answers. Without epochs it answers none. Its methods are safe for concurrent use.
type Guard struct {
	// Overlap is the time for which an epoch is accepted after it was retired, and a plain path after it left the last configuration.
	Overlap time.Duration
	// Now is the clock; only differences matter, so setting the clock has no effect.
	Now func() time.Time
	// Reread is called for an unknown segment, since this process may not know the latest epoch yet. It calls Set before it returns. Guard
	// calls it at most once in rereadEvery; nil for never.
	Reread func()

	state atomic.Pointer[state]

	mu       sync.Mutex // guards changes to state, and the following fields
	flight   chan struct{}
	read     time.Time
	standing []string // the paths with a segment in the webhook configurations
}

// state is immutable.
type state struct {
	epochs []open
	plain  map[string]time.Time // until when the path is accepted; zero while it is in a configuration
}

type open struct {
	*Epoch
	until time.Time // zero: until it is retired or, if it is gone, until no configuration uses it
	gone  bool      // the Secret lost it before it was retired, such as by another key
}

// rereadEvery is the minimum time between two calls of Reread; patience is the maximum time that a request waits for one.
const (
	rereadEvery = time.Second
	patience    = time.Second
)

// Set sets the epochs: the current one, and the previous one (nil for none), with whether it is retired. An epoch that is retired is accepted
// for Overlap, counted from that call of Set; clocks of other processes do not matter. An epoch that is gone without being retired is accepted
// while a webhook configuration uses it, and for Overlap after that: otherwise no request would be answered until all are written again.
func (g *Guard) Set(current, previous *Epoch, retired bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, old := g.Now(), g.load()
	next := &state{epochs: []open{{Epoch: current}}, plain: old.plain}
	if previous != nil && !previous.same(current) {
		next.epochs = append(next.epochs, open{Epoch: previous})
	}
	for _, o := range old.epochs {
		i := slices.IndexFunc(next.epochs, func(n open) bool { return n.same(o.Epoch) })
		switch {
		case i == 0: // it is current
		case i > 0:
			next.epochs[i].until = o.until
		case o.until.IsZero() && !o.gone:
			next.epochs = append(next.epochs, g.leave(open{Epoch: o.Epoch, gone: true}, now))
		case o.until.IsZero(), now.Before(o.until):
			next.epochs = append(next.epochs, o)
		}
	}
	for i := range next.epochs[1:] {
		if e := &next.epochs[i+1]; retired && previous != nil && e.same(previous) && e.until.IsZero() {
			e.until = now.Add(g.Overlap)
		}
	}
	if len(next.epochs) > maxEpochs { // another client changes the Secret repeatedly
		next.epochs = next.epochs[:maxEpochs]
	}
	g.state.Store(next)
}

// maxEpochs bounds the number of accepted epochs, and thereby the time of a check.
const maxEpochs = 4

// leave returns an epoch that is gone, with its end.
func (g *Guard) leave(o open, now time.Time) open {
	used := slices.ContainsFunc(g.standing, func(path string) bool {
		segment, plain, _ := Split(path)
		return o.opens(segment, plain)
	})
	switch {
	case used:
		o.until = time.Time{}
	case o.until.IsZero():
		o.until = now.Add(g.Overlap)
	}
	return o
}

// Stand sets the paths that webhook configurations use. A removed plain path is accepted for Overlap.
func (g *Guard) Stand(paths []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, old := g.Now(), g.load()
	plain := make(map[string]time.Time, len(paths))
	g.standing = nil
	for _, p := range paths {
		if _, _, secret := Split(p); secret {
			g.standing = append(g.standing, p)
		} else {
			plain[p] = time.Time{}
		}
	}
	for p, until := range old.plain {
		if _, stands := plain[p]; stands {
			continue
		}
		if until.IsZero() {
			until = now.Add(g.Overlap)
		}
		if now.Before(until) {
			plain[p] = until
		}
	}
	epochs := slices.Clone(old.epochs)
	for i, o := range epochs {
		if o.gone && (o.until.IsZero() || now.Before(o.until)) {
			epochs[i] = g.leave(o, now)
		}
	}
	if !maps.Equal(plain, old.plain) || !slices.Equal(epochs, old.epochs) {
		g.state.Store(&state{epochs: epochs, plain: plain})
	}
}

// Ready reports whether there is an epoch.
func (g *Guard) Ready() bool { return len(g.load().epochs) > 0 }

var none = &state{}

func (g *Guard) load() *state {
	if s := g.state.Load(); s != nil {
		return s
	}
	return none
}

// Prove reports whether the server answers requests for the path, and returns the path without its segment. It does not allocate. For an
// unknown segment it may wait for Reread, for at most a second.
func (g *Guard) Prove(path string) (plain string, v Verdict) {
	segment, plain, ok := Split(path)
	if !ok {
		until, known := g.load().plain[path]
		if known && (until.IsZero() || g.Now().Before(until)) {
			return path, Standing
		}
		return "", Missing
	}
	v = g.opens(segment, plain)
	if v == Unknown && g.late() {
		v = g.opens(segment, plain)
	}
	if v == Unknown {
		plain = ""
	}
	return plain, v
}

func (g *Guard) opens(segment, plain string) Verdict {
	for i, e := range g.load().epochs {
		switch {
		case !e.opens(segment, plain):
			continue
		case !e.until.IsZero() && !g.Now().Before(e.until):
			return Unknown
		case i == 0:
			return Proved
		}
		return Ending
	}
	return Unknown
}

// late calls Reread, and reports whether it did.
func (g *Guard) late() bool {
	if g.Reread == nil {
		return false
	}
	g.mu.Lock()
	f := g.flight
	if f == nil {
		if now := g.Now(); !g.read.IsZero() && now.Sub(g.read) < rereadEvery {
			g.mu.Unlock()
			return false
		} else {
			g.read = now
		}
		f = make(chan struct{})
		g.flight = f
		go func() {
			defer close(f)
			defer func() {
				g.mu.Lock()
				g.flight = nil
				g.mu.Unlock()
			}()
			g.Reread()
		}()
	}
	g.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-f:
		return true
	case <-timer.C:
		return false
	}
}

// Open accepts every path, with or without a segment. It is for clients that are identified by certificates, or if the operator has
// switched the segments off. It accepts both forms so that replicas with different settings can run together.
type Open struct{}

// Prove has the signature of Guard.Prove.
func (Open) Prove(path string) (plain string, v Verdict) { return Plain(path), Proved }
