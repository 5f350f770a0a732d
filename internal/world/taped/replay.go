package taped

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// Lookup is a recorded lookup.
type Lookup struct {
	Method, Reach string
	Asked         string // in the form of Brief
	Digest        string // of the hidden parts; empty if there are none
	// Text returns the JSON text of the answer. It is not used if there is a Failure. An error means that the answer is unknown.
	Text    func() ([]byte, error)
	Failure *Failure
	// Unknown is the reason why the answer is not recorded; empty if it is recorded.
	Unknown string
	// Version differs between different answers.
	Version string
}

// Reel has the lookups of one review.
type Reel struct {
	Lookups []Lookup
	Salt    []byte
}

// Recorded has the lookups of the reviews of one request.
type Recorded struct {
	Reels []Reel
	Lacks []string
	// Time is the time that clocks show.
	Time time.Time
	// Absent is the reason that is given for a lookup that is not on the tape, Unsteady the reason for a lookup to which the reviews had
	// different answers.
	Absent, Unsteady string
	// Live: lookups that are not on the tape are made in the Root that the tape wraps.
	Live bool
}

// player answers from a record.
type player struct {
	Recorded
	reels []map[string]*playing // by key
	lacks map[string]bool       // members that the reviews did not have

	mu      sync.Mutex
	missing []Miss
	live    int
}

// playing is a recorded lookup, with its answer once it is decoded.
type playing struct {
	Lookup
	once   sync.Once
	answer any   // a pointer
	err    error // of decoding
}

// Miss is a lookup that has no recorded answer.
type Miss struct{ Method, Asked, Why string }

// Replay returns a Tape that answers from a record.
func Replay(r Recorded) *Tape {
	p := &player{Recorded: r, lacks: map[string]bool{}}
	for _, member := range r.Lacks {
		p.lacks[member] = true
	}
	randoms := 0
	for _, reel := range r.Reels {
		byKey := make(map[string]*playing, len(reel.Lookups))
		for _, l := range reel.Lookups {
			if l.Method == random { // the random numbers of all reviews form one sequence
				n, _, _ := strings.Cut(strings.TrimPrefix(l.Asked, "["), ",")
				l.Asked = "[" + n + "," + strconv.Itoa(randoms) + "]"
				randoms++
			}
			byKey[keyOf(l.Method, l.Reach, l.Asked, l.Digest)] = &playing{Lookup: l}
		}
		p.reels = append(p.reels, byKey)
	}
	return &Tape{play: p}
}

// find returns the recorded lookup that answers a question; nil if there is none. unsteady: the reviews had different answers.
func (p *player) find(q *question, brief string) (l *playing, unsteady bool) {
	for i, byKey := range p.reels {
		found := byKey[keyOf(q.method, q.reach, brief, Digest(p.Reels[i].Salt, q.method, q.reach, q.Asked, q.Hidden))]
		switch {
		case found == nil:
		case l == nil:
			l = found
		case l.Version != found.Version:
			return l, true
		}
	}
	return l, false
}

func keyOf(method, reach, brief, digest string) string {
	return method + "\x00" + reach + "\x00" + brief + "\x00" + digest
}

// Missing returns the lookups that have no recorded answer, and were not made again.
func (t *Tape) Missing() []Miss {
	if t == nil || t.play == nil {
		return nil
	}
	t.play.mu.Lock()
	defer t.play.mu.Unlock()
	return slices.Clone(t.play.missing)
}

// Lived reports whether lookups that have no recorded answer were made again.
func (t *Tape) Lived() bool {
	if t == nil || t.play == nil {
		return false
	}
	t.play.mu.Lock()
	defer t.play.mu.Unlock()
	return t.play.live > 0
}

// answer answers a question from the record.
func (p *player) answer(ctx context.Context, q question, empty func() any, next func(context.Context) (any, error), available bool) (any, error) {
	brief := Brief(q.Asked)
	l, unsteady := p.find(&q, brief)
	why := p.Absent
	switch {
	case l == nil:
	case unsteady:
		why = p.Unsteady
	case l.Unknown != "":
		why = l.Unknown
	case l.Failure != nil:
		return nil, l.Failure.Err()
	default:
		l.once.Do(func() {
			l.answer = empty()
			var text []byte
			if text, l.err = l.Text(); l.err == nil {
				l.err = decode(text, l.answer)
			}
		})
		if l.err == nil {
			return l.answer, nil
		}
		why = l.err.Error()
	}
	if p.Live && available {
		p.mu.Lock()
		p.live++
		p.mu.Unlock()
		return next(ctx)
	}
	p.mu.Lock()
	p.missing = append(p.missing, Miss{q.method, brief, why})
	p.mu.Unlock()
	return nil, fmt.Errorf("the answer to the lookup %s %s is not recorded: %w", q.method, brief, world.ErrUnavailable)
}

// clock shows the time of the record.
type clock time.Time

func (c clock) Now() time.Time { return time.Time(c) }
