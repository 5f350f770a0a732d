package share

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/budget"
)

// How processor time is divided. One step of the meter takes about 10 ns.
const (
	stepsPerSecond = 100_000_000 // of one processor
	// All namespaced policies together may use a fifth of the processors, those of one namespace a twentieth.
	partOfAll = 5
	partOfOne = 20
	// burst is the time whose share an idle namespace may use at once.
	burst = time.Second
	// portion is the number of steps between two checks of the account.
	portion = 16 << 10
	// maxWait bounds all waits of one evaluation together.
	maxWait = 2 * time.Second
	// maxDebt bounds the time in which a namespace pays its debt, because a single step of the language cannot be interrupted.
	maxDebt = 5 * time.Second
	// maxLarge is how many evaluations of a namespace may exceed their first portion at the same time, since each holds memory; maxWaiting
	// is how many may wait for that.
	maxLarge   = 2
	maxWaiting = 64
	// sweepEvery is the interval at which full accounts are dropped and busy ones counted.
	sweepEvery = 100 * time.Millisecond
)

// Shares are the accounts of namespaces. Their methods are safe for concurrent use.
type Shares struct {
	one, all float64 // steps per second for a namespace, and for all together
	now      func() time.Time
	sleep    func(context.Context, time.Duration) error

	mu         sync.Mutex
	namespaces map[string]*namespace
	busy       int // number of namespaces that use much
	swept      time.Time
}

// namespace is one account.
type namespace struct {
	balance float64 // steps; negative for a debt
	at      time.Time
	using   int           // number of pacers that are not done
	waiting int           // number of evaluations that wait for large
	large   chan struct{} // has one entry for each evaluation past its first portion
	turn    chan struct{} // has an entry while a policy is reviewed
}

// New returns the Shares of a process on this number of processors.
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

// Pacer paces the evaluation of one policy of a namespace for one request. Without wait, it returns an error instead of waiting.
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
	pending  int64         // steps that have not been charged yet
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
		// The evaluation is large: it holds memory, and others may have waited for the processor.
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

// wait waits until the debt is paid, unless that takes too long.
func (p *pacer) wait(ctx context.Context, owed time.Duration) error {
	patience := p.patience
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, end.Sub(p.shares.now())/2) // the other half is left for later work
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

// charge takes the pending steps off the account and returns how long it takes to pay the debt; 0 without a debt.
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

// rate returns the steps per second of one namespace at the current number of busy ones.
func (s *Shares) rate() float64 { return min(s.one, s.all/float64(max(s.busy, 1))) }

// fill adds the steps since the last call.
func (s *Shares) fill(n *namespace, now time.Time, rate float64) {
	n.balance = min(n.balance+rate*now.Sub(n.at).Seconds(), s.one*burst.Seconds())
	n.at = now
}

// of returns the account of a namespace. The caller holds the lock.
func (s *Shares) of(name string) *namespace {
	n := s.namespaces[name]
	if n == nil {
		n = &namespace{balance: s.one * burst.Seconds(), at: s.now(), large: make(chan struct{}, maxLarge), turn: make(chan struct{}, 1)}
		s.namespaces[name] = n
	}
	return n
}

// sweep drops the accounts that are full and unused, and counts those that are less than half full. The caller holds the lock.
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
