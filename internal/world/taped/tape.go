package taped

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Tape records the lookups of one review, or answers lookups from a record. It is safe for concurrent use.
type Tape struct {
	mu      sync.Mutex
	entries []*Entry
	found   map[string]*Entry
	randoms int             // number of random numbers so far
	lacks   map[string]bool // members that a World does not have, with its reach
	clipped bool
	closed  bool

	play *player // nil if the tape records
}

// Entry is one lookup with its answer.
type Entry struct {
	Method string
	// Reach is the namespace to which the World is confined, Everywhere if it is not confined; empty for a lookup about the request itself.
	Reach string
	world.Key
	// Answer is the answer; Err is the error if there is no answer.
	Answer any
	Err    error
	// Unsteady: a later equal lookup had another answer.
	Unsteady bool
}

// Everywhere is the Reach of policies that may read the whole cluster.
const Everywhere = "*"

// maxEntries bounds the recorded lookups of one review.
const maxEntries = 256

// New returns a Tape that records.
func New() *Tape { return &Tape{found: map[string]*Entry{}, lacks: map[string]bool{}} }

// question is a lookup without its answer.
type question struct {
	method, reach string
	world.Key
}

func (q *question) key() string {
	return strings.Join(append([]string{q.method, q.reach, q.Asked}, q.Hidden...), "\x00") + "\x00"
}

// record records an answer. It keeps the first answer to each question.
func (t *Tape) record(q question, answer any, err error) {
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
		e = &Entry{Method: q.method, Reach: q.reach, Key: q.Key, Answer: answer, Err: err}
		t.entries, t.found[key] = append(t.entries, e), e
	}
}

// Size estimates the memory of the answers in bytes. It stops at the limit.
func (t *Tape) Size(limit int) (size int) {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		if size < limit {
			size += value.Size(e.Answer, limit-size)
		}
	}
	return size
}

func same(e *Entry, answer any, err error) bool {
	if e.Err != nil || err != nil {
		return e.Err != nil && err != nil && e.Err.Error() == err.Error()
	}
	return reflect.DeepEqual(e.Answer, answer)
}

// Notes has the lookups of a review.
type Notes struct {
	Entries []Entry
	// Lacks lists members that the Worlds of the review did not have.
	Lacks []string
	// Clipped: some lookups are not recorded, since there were too many.
	Clipped bool
}

// Close ends the recording and returns its notes, in the order of the first lookups. The nil Tape has none.
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
	n.Lacks = slices.Sorted(maps.Keys(t.lacks))
	return n
}

// AnswerOrCall makes a lookup about the request itself. It calls next unless the tape has the answer. The nil Tape calls next.
func AnswerOrCall[T any](ctx context.Context, t *Tape, method, asked string, next func(context.Context) (T, error)) (T, error) {
	if t == nil {
		return next(ctx)
	}
	return answerOrCall(ctx, t, question{method: method, Key: world.Key{Asked: asked}}, next, true)
}

// answerOrCall answers a question from the record or by next; available: next can be called.
func answerOrCall[T any](ctx context.Context, t *Tape, q question, next func(context.Context) (T, error), available bool) (T, error) {
	return world.AnswerOf[T](t.answer(ctx, q, func() any { return new(T) }, func(ctx context.Context) (any, error) { return next(ctx) }, available))
}

// answer answers a question from the record or by next; available: next can be called. The answer is that of next, or a pointer from empty.
func (t *Tape) answer(ctx context.Context, q question, empty func() any, next func(context.Context) (any, error), available bool) (any, error) {
	if t.play == nil {
		v, err := next(ctx)
		t.record(q, v, err)
		return v, err
	}
	return t.play.answer(ctx, q, empty, next, available)
}
