package world

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/value"
)

// Lookup answers one kind of request about the outside. A nil Lookup is not available here.
type Lookup[Q Request, A any] func(context.Context, Q) (A, error)

// Request is one request of a Lookup. All that decorators have to know about a kind of request is here.
type Request interface {
	// Within returns the request in the form that a policy with a Reach of one namespace may send; the error means that it may not.
	Within(r Reach) (Request, error)
	// Title describes the request in a trace, without confidential data.
	Title() string
	// Key identifies the request on a tape.
	Key() Key
}

// Key identifies a request among those of its Lookup.
type Key struct {
	// Asked is the canonical request. Hidden has the parts of it that may hold credentials.
	Asked  string
	Hidden []string
	// Guarded has values of the request that no text may contain.
	Guarded []string
	// Secrets: the answer is data of Secrets, whatever its form.
	Secrets bool
}

// Canonical returns the canonical form of a list of texts.
func Canonical(texts ...string) string {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return value.JSON(out)
}

func keyOf(texts ...string) Key { return Key{Asked: Canonical(texts...)} }

// Call is one use of a Lookup, as decorators see it.
type Call struct {
	// Method names the Lookup.
	Method  string
	Request Request
	// New returns a pointer to a zero answer. A decorator returns the answer, or this pointer after it filled it.
	New func() any

	title string
}

// Title describes the call in a trace.
func (c *Call) Title() string { return c.title + c.Request.Title() }

// Next answers a request in the place of a decorator. It is nil if the Lookup is not available behind it.
type Next func(context.Context, Request) (any, error)

// Around is a decorator of all Lookups: it answers a call, usually by next.
type Around func(ctx context.Context, c Call, next Next) (any, error)

// Through returns the World whose Lookups go through the decorator. offered reports for each member, by its name, whether the result has it,
// and gets whether w has it; nil for the members of w.
func (w World) Through(around Around, offered func(member string, has bool) bool) World {
	if offered == nil {
		offered = func(_ string, has bool) bool { return has }
	}
	w.each(door{around, offered})
	return w
}

// Within returns the World with only what is in reach. Every implementation of Root must return its World through it.
func (w World) Within(r Reach) World {
	if r.cluster {
		return w
	}
	return w.Through(func(ctx context.Context, c Call, next Next) (any, error) {
		q, err := c.Request.Within(r)
		if err != nil {
			return nil, err
		}
		return next(ctx, q)
	}, nil)
}

// door is a decorator on its way through a World.
type door struct {
	around  Around
	offered func(member string, has bool) bool
}

// pass puts a Lookup behind the decorator. title begins the description of its calls in a trace.
func pass[L ~func(context.Context, Q) (A, error), Q Request, A any](d door, member, method, title string, l *L) {
	old := *l
	if !d.offered(member, old != nil) {
		*l = nil
		return
	}
	var next Next
	if old != nil {
		next = func(ctx context.Context, q Request) (any, error) { return old(ctx, q.(Q)) }
	}
	*l = func(ctx context.Context, q Q) (A, error) {
		return AnswerOf[A](d.around(ctx, Call{method, q, func() any { return new(A) }, title}, next))
	}
}

// AnswerOf returns the answer that a decorator returned: an A, or a pointer to one.
func AnswerOf[A any](answer any, failed error) (out A, err error) {
	switch a := answer.(type) {
	case nil:
	case *A:
		out = *a
	case A:
		out = a
	default:
		return out, fmt.Errorf("an answer is a %T instead of a %T", answer, out)
	}
	return out, failed
}
