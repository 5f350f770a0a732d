package share

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ephor-dev/ephor/internal/budget"
)

// How processor time is divided. Steps of the meter take about 10 ns.
const (
	stepsPerSecond = 100_000_000 // of one processor
	// All namespaced policies together get a fifth of the processors, those of one namespace a twentieth.
	partOfAll = 5
	partOfOne = 20
	// burst is the time for which a namespace that was idle may use its part at once.
	burst = time.Second
	// portion is how many steps are taken between two looks at the account.
	portion = 16 << 10
	// maxWait is how long one evaluation waits, all its waits together.
	maxWait = 2 * time.Second
	// maxDebt is the time for which a namespace pays at most: single steps of the language cannot be interrupted.
	maxDebt = 5 * time.Second
	// maxLarge is how many evaluations of a namespace may be past their first portion at the same time, since each holds
	// memory; maxWaiting how many may wait for that.
	maxLarge   = 2
	maxWaiting = 64
	// sweepEvery is how often accounts that are full are dropped, and the busy ones counted.
	sweepEvery = 100 * time.Millisecond
)

// Shares are the accounts of namespaces. All methods are safe for all goroutines.
type Shares struct {
	one, all float64 // steps per second for a namespace, and for all together
	now      func() time.Time
	sleep    func(context.Context, time.Duration) error

	mu         sync.Mutex
	namespaces map[string]*namespace
	busy       int // namespaces that use much
	swept      time.Time
}

// namespace is one account.
type namespace struct {
	balance float64 // steps; negative for a debt
	at      time.Time
	using   int           // pacers that are not done
	waiting int           // for large
	large   chan struct{} // holds one for each evaluation past its first portion
}

// New returns the Shares of a process that runs on so many processors.
func New(processors int) *Shares {
	rate := float64(processors) * stepsPerSecond
	return &Shares{one: rate / partOfOne, all: rate / partOfAll, now: time.Now, sleep: sleep, namespaces: map[string]*namespace{}}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pacer paces the evaluation of one policy of a namespace for one request. Without wait it never waits: what would have to
// wait is an error at once.
func (s *Shares) Pacer(of string, wait bool) budget.Pacer {
	p := &pacer{shares: s, name: of}
	if wait {
		p.patience = maxWait
	}
	s.mu.Lock()
	p.namespace = s.of(of)
	p.namespace.using++
	s.mu.Unlock()
	return p
}

// pacer implements budget.Pacer.
type pacer struct {
	shares *Shares
	name   string
	*namespace
	patience time.Duration // how long it may still wait
	pending  int64         // steps that are not charged yet
	large    bool
	done     bool
}

// Pace implements budget.Pacer.
func (p *pacer) Pace(ctx context.Context, steps int64) error {
	p.pending += steps
	if steps > 0 && p.pending < portion {
		return nil
	}
	if steps > 0 {
		// The work is large: it holds memory, and others may have waited for the processor.
		if err := p.enlarge(ctx); err != nil {
			return err
		}
		runtime.Gosched()
	}
	owed := p.charge()
	if owed <= 0 {
		return nil
	}
	return p.wait(ctx, owed)
}

// wait lets owed pass, if that is not too long.
func (p *pacer) wait(ctx context.Context, owed time.Duration) error {
	patience := p.patience
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, end.Sub(p.shares.now())/2) // the other half is for what comes after it
	}
	if owed > patience {
		return p.refused()
	}
	p.patience -= owed
	return p.shares.sleep(ctx, owed)
}

func (p *pacer) refused() error {
	return fmt.Errorf("%w: the policies of namespace %s have used up their share of processor time for the moment: make them do less, or try again later",
		budget.ErrExhausted, p.name)
}

// enlarge takes one of the places for large evaluations.
func (p *pacer) enlarge(ctx context.Context) error {
	if p.large {
		return nil
	}
	select {
	case p.namespace.large <- struct{}{}:
		p.large = true
		return nil
	default:
	}
	s := p.shares
	s.mu.Lock()
	full := p.patience <= 0 || p.waiting >= maxWaiting
	if !full {
		p.waiting++
	}
	s.mu.Unlock()
	if full {
		return p.refused()
	}
	defer func() {
		s.mu.Lock()
		p.waiting--
		s.mu.Unlock()
	}()
	patience := p.patience
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, end.Sub(s.now())/2)
	}
	began := s.now()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case p.namespace.large <- struct{}{}:
		p.large = true
		p.patience -= s.now().Sub(began)
		return nil
	case <-t.C:
		p.patience = 0
		return p.refused()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Spend implements budget.Pacer.
func (p *pacer) Spend(steps int64) { p.pending += steps }

// Done implements budget.Pacer.
func (p *pacer) Done() {
	if p.done {
		return
	}
	p.done = true
	p.charge()
	if p.large {
		<-p.namespace.large
	}
	p.shares.mu.Lock()
	p.using--
	p.shares.mu.Unlock()
}

// charge takes what was spent off the account and returns how long the debt takes to be paid; nothing without a debt.
func (p *pacer) charge() time.Duration {
	s := p.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	rate := s.rate()
	n := p.namespace
	s.fill(n, now, rate)
	n.balance = max(n.balance-float64(p.pending), -rate*maxDebt.Seconds())
	p.pending = 0
	if n.balance >= 0 {
		return 0
	}
	return time.Duration(-n.balance / rate * float64(time.Second))
}

// rate returns what one namespace gets per second while so many are busy.
func (s *Shares) rate() float64 { return min(s.one, s.all/float64(max(s.busy, 1))) }

// fill adds what has come in since the last time.
func (s *Shares) fill(n *namespace, now time.Time, rate float64) {
	n.balance = min(n.balance+rate*now.Sub(n.at).Seconds(), s.one*burst.Seconds())
	n.at = now
}

// of returns the account of a namespace. The lock is held.
func (s *Shares) of(name string) *namespace {
	n := s.namespaces[name]
	if n == nil {
		n = &namespace{balance: s.one * burst.Seconds(), at: s.now(), large: make(chan struct{}, maxLarge)}
		s.namespaces[name] = n
	}
	return n
}

// sweep drops the accounts that are full and unused, and counts those that are less than half full. The lock is held.
func (s *Shares) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	rate := s.rate()
	full := s.one * burst.Seconds()
	s.busy = 0
	for name, n := range s.namespaces {
		s.fill(n, now, rate)
		switch {
		case n.balance >= full && n.using == 0:
			delete(s.namespaces, name)
		case n.balance < full/2:
			s.busy++
		}
	}
}
