package share

import (
	"context"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/budget"
)

// Turn waits until no other policy of a namespace is reviewed and the debt of the namespace is paid, at most half of the time that is left.
// The caller calls done after the review, which costs that many steps. An error, which wraps budget.ErrExhausted, means that the wait would be
// too long.
func (s *Shares) Turn(ctx context.Context, of string, steps int64) (done func(), err error) {
	p := s.Pacer(of, true).(*pacer)
	if end, ok := ctx.Deadline(); ok {
		p.patience = end.Sub(s.now()) / 2
	}
	if err := p.takeTurn(ctx); err != nil {
		p.Done()
		return nil, err
	}
	done = func() {
		p.Spend(steps)
		p.Done()
		<-p.turn
	}
	if err := p.Pace(ctx, 0); err != nil {
		steps = 0
		done()
		return nil, err
	}
	return done, nil
}

// takeTurn waits for the turn of the namespace.
func (p *pacer) takeTurn(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	default:
	}
	s := p.shares
	busy := fmt.Errorf("%w: other policies of namespace %s are being reviewed, one after the other: try again later", budget.ErrExhausted, p.name)
	s.mu.Lock()
	full := p.waiting >= maxWaiting
	if !full {
		p.waiting++
	}
	s.mu.Unlock()
	if full {
		return busy
	}
	defer func() {
		s.mu.Lock()
		p.waiting--
		s.mu.Unlock()
	}()
	began := s.now()
	t := time.NewTimer(p.patience)
	defer t.Stop()
	select {
	case p.turn <- struct{}{}:
		p.patience -= s.now().Sub(began)
		return nil
	case <-t.C:
		return busy
	case <-ctx.Done():
		return busy
	}
}
