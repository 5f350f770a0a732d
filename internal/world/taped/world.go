package taped

import (
	"context"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Root returns a Root that records the lookups in next, or answers them from the record. next may be nil if the tape answers from a record.
// The nil Tape returns next.
func (t *Tape) Root(next world.Root) world.Root {
	if t == nil || next == nil && t.play == nil {
		return next
	}
	return world.RootFunc(func(r world.Reach) world.World {
		var w world.World
		if next != nil {
			w = next.For(r)
		}
		reach := Everywhere
		if !r.IsCluster() {
			reach = r.Namespace()
		}
		offered := func(member string, has bool) bool { return t.offered(reach+" "+member, has) }
		out := w.Through(func(ctx context.Context, c world.Call, next world.Next) (any, error) {
			q := question{c.Method, reach, c.Request.Key()}
			if name, global := c.Request.(world.GlobalRequest); global && w.GlobalOfSecrets != nil {
				q.Secrets = w.GlobalOfSecrets(string(name))
			}
			return t.answer(ctx, q, c.New, func(ctx context.Context) (any, error) { return next(ctx, c.Request) }, next != nil)
		}, offered)
		has := offered("Clock", w.Clock != nil)
		if t.play != nil {
			out.Clock = nil
			if has {
				out.Clock = clock(t.play.Time)
			}
		}
		if offered("Rand", w.Rand != nil) {
			out.Rand = numbers{t, reach, w.Rand}
		}
		return out
	})
}

// offered reports whether the World of the tape has a member of that reach and name. A tape that records notes a member that is missing.
func (t *Tape) offered(member string, has bool) bool {
	if p := t.play; p != nil {
		return !p.lacks[member]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !has && !t.closed {
		t.lacks[member] = true
	}
	return has
}

// numbers are the random numbers of a tape.
type numbers struct {
	*Tape
	reach string
	next  world.Rand
}

// Intn implements world.Rand. Equal lookups have separate answers, in the order in which they are made.
func (r numbers) Intn(n int) int {
	r.mu.Lock()
	i := r.randoms
	r.randoms++
	r.mu.Unlock()
	q := question{random, r.reach, world.Key{Asked: value.JSON([]any{int64(n), int64(i)})}}
	v, err := answerOrCall(context.Background(), r.Tape, q, func(context.Context) (int, error) { return r.next.Intn(n), nil }, r.next != nil)
	if err != nil || v < 0 || v >= n {
		return 0 // the lookup is in Missing, so no result that depends on the number counts
	}
	return v
}
