package taped

import (
	"context"
	"reflect"
	"strings"
	"sync"

	"github.com/ephor-dev/ephor/internal/world"
)

// Tape holds the lookups of one review: either it takes notes, or it answers from them. It is safe for concurrent use.
type Tape struct {
	mu      sync.Mutex
	entries []*Entry
	found   map[string]*Entry
	randoms int             // random numbers so far
	lacks   map[string]bool // members that a World does not have, as lackOf writes them
	clipped bool
	closed  bool

	play *player // nil while the tape takes notes
}

// Entry is one lookup with its answer.
type Entry struct {
	Method string
	// Reach is the namespace that limits the World, Everywhere for none; empty for a lookup about the request itself.
	Reach string
	// Asked is the canonical request. Hidden are the parts of it that may hold credentials.
	Asked  string
	Hidden []string
	// Guarded are values of it that no text may have.
	Guarded []string
	// Answer is the answer; Err the error in its place.
	Answer any
	Err    error
	// Unsteady: an equal lookup had another answer later.
	Unsteady bool
	// Secrets: the answer is data of Secrets, whatever its form.
	Secrets bool
}

// Everywhere is the Reach of policies that may read the whole cluster.
const Everywhere = "*"

// maxEntries bounds the lookups of one review that are noted.
const maxEntries = 256

// New returns a Tape that takes notes.
func New() *Tape { return &Tape{found: map[string]*Entry{}, lacks: map[string]bool{}} }

// question is a lookup without its answer.
type question struct {
	method, reach, asked string
	hidden, guarded      []string
	secrets              bool
}

func (q *question) key() string {
	var b strings.Builder
	for _, part := range append([]string{q.method, q.reach, q.asked}, q.hidden...) {
		b.WriteString(part)
		b.WriteByte(0)
	}
	return b.String()
}

// note adds an answer. The first answer to a question stays.
func (t *Tape) note(q question, answer any, err error) {
	key := q.key()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := t.found[key]; {
	case t.closed:
	case e != nil:
		e.Unsteady = e.Unsteady || !same(e, answer, err)
	case len(t.entries) >= maxEntries:
		t.clipped = true
	default:
		e = &Entry{Method: q.method, Reach: q.reach, Asked: q.asked, Hidden: q.hidden, Guarded: q.guarded, Answer: answer, Err: err, Secrets: q.secrets}
		t.entries, t.found[key] = append(t.entries, e), e
	}
}

func same(e *Entry, answer any, err error) bool {
	if e.Err != nil || err != nil {
		return e.Err != nil && err != nil && e.Err.Error() == err.Error()
	}
	return reflect.DeepEqual(e.Answer, answer)
}

// Notes are the lookups of a review.
type Notes struct {
	Entries []Entry
	// Lacks are members that the Worlds of the review did not have.
	Lacks []string
	// Clipped: there were more lookups than are noted.
	Clipped bool
}

// Close ends the tape and returns its notes, in the order of the first lookups. The nil Tape has none.
func (t *Tape) Close() (n Notes) {
	if t == nil || t.play != nil {
		return n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	n.Clipped = t.clipped
	for _, e := range t.entries {
		n.Entries = append(n.Entries, *e)
	}
	n.Lacks = sortedKeys(t.lacks)
	return n
}

// Ask makes a lookup about the request itself: next is called unless the tape has the answer. The nil Tape calls next.
func Ask[T any](ctx context.Context, t *Tape, method, asked string, next func(context.Context) (T, error)) (T, error) {
	if t == nil {
		return next(ctx)
	}
	return ask(ctx, t, question{method: method, asked: asked}, next)
}

// ask answers a question: by next, which may be nil while the tape answers.
func ask[T any](ctx context.Context, t *Tape, q question, next func(context.Context) (T, error)) (T, error) {
	if t.play != nil {
		return played(ctx, t.play, q, next)
	}
	v, err := next(ctx)
	t.note(q, v, err)
	return v, err
}

// reachOf is the Reach in the key of a lookup.
func reachOf(r world.Reach) string {
	if r.IsCluster() {
		return Everywhere
	}
	return r.Namespace()
}
