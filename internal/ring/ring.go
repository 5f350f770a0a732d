package ring

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	clientv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Options are the options of one member.
type Options struct {
	// Leases are the Leases of the namespace.
	Leases    Leases
	Namespace string
	// Controller names the ring, and is a part of the Leases' names. Identity names the member: it is the name of the Pod.
	Controller, Identity string
	Log                  *slog.Logger
}

// NewLeases returns the Leases of a namespace with their own client: renewals must not wait behind other requests.
func NewLeases(cfg *rest.Config, namespace string) (Leases, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = -1, 0
	client, err := clientv1.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	return client.Leases(namespace), nil
}

// Ring is one member of a ring. Its methods are safe for concurrent use.
type Ring struct {
	Options
	name   string // name of our Lease
	holder string // our identity, and that of this process, since a restarted container is a different one
	// wake tells watch that times changed; released tells leave that a hold has ended.
	wake, released chan struct{}

	// Only Run uses these fields.
	written bool // we have written our Lease
	joined  bool // the Lease is ours
	first   bool // we have just created the first Lease
	// failures is the number of consecutive failed rounds.
	failures int

	mu      sync.Mutex
	view    view
	holds   map[*hold]struct{}
	changed chan struct{}
	ending  bool
	paused  bool
}

// New returns a member that holds nothing until it runs.
func New(o Options) *Ring {
	return &Ring{
		Options: o, name: o.Controller + "-" + o.Identity, holder: o.Identity + "_" + strings.ToLower(rand.Text()[:8]),
		wake: make(chan struct{}, 1), released: make(chan struct{}, 1), view: newView(o.Controller + "-" + o.Identity), holds: map[*hold]struct{}{}, changed: make(chan struct{}),
	}
}

// Owns reports whether work on the key may begin now.
func (r *Ring) Owns(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ending && !r.paused && r.view.owns(key, time.Now())
}

// Pause takes all work away from this member while paused is true: work in progress is cancelled with ErrLapsed, and no work begins. It
// stays a member, so the others get none of its keys.
func (r *Ring) Pause(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == paused {
		return
	}
	r.paused = paused
	if paused {
		r.endHolds(time.Now(), true)
	}
	r.notify()
}

// Changed returns a channel that is closed when this member may hold other keys than at the time of the call. To miss no change, call it
// before you check the keys:
//
//	for ctx.Err() == nil {
//		changed := r.Changed()
//		lookAtAllKeys()
//		<-changed
//	}
func (r *Ring) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Members returns the identities of the known members, in order; none without authority.
func (r *Ring) Members() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view.proof.IsZero() || time.Since(r.view.proof) >= Start {
		return nil
	}
	names := slices.Clone(r.view.past[len(r.view.past)-1].names)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, r.Controller+"-")
	}
	return names
}

// Run takes part in the ring until ctx is done, no work is in progress, and its Lease is removed. Work that is still in progress 10
// seconds after the last renewal is cancelled.
func (r *Ring) Run(ctx context.Context) {
	left := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(left) })
	defer watching.Wait()
	defer close(left)
	for ctx.Err() == nil {
		wait(ctx.Done(), nil, r.renew(ctx))
	}
	r.leave()
}

// renew does one round and acts on its result. It returns when the next one is due.
func (r *Ring) renew(ctx context.Context) (next time.Time) {
	start := time.Now()
	err := r.round(ctx, start)
	switch {
	case ctx.Err() != nil:
		return start.Add(Renew)
	case err == nil && !r.joined:
		return time.Now() // the Lease is now ours; another list shows the other members
	case taken(err):
		r.Log.Warn("this replica has lost its share of the work and takes it again", "lease", r.name, "reason", err)
		r.drop()
		return time.Now()
	case err != nil:
		if r.failures++; r.failures&(r.failures-1) == 0 { // the 1st, 2nd, 4th, 8th …: often enough to be noticed
			r.Log.Warn("cannot renew the share of the work", "lease", r.name, "failures", r.failures, "error", err)
		}
		pause := Renew / 4
		if r.failures > int(Valid/pause) {
			pause = Renew // the authority has ended, so there is no hurry
		}
		return time.Now().Add(pause)
	}
	r.failures = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	next = start.Add(Renew)
	if at := r.view.next(); !at.IsZero() && at.Before(next) {
		next = at // the end of a member is noticed at once
	}
	return next
}

// round lists the Leases and then renews our own, so that a member that cannot see the others does not count for them. If our Lease is
// missing, or held by another process, round only creates or takes it.
func (r *Ring) round(ctx context.Context, start time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	own, others, err := r.list(ctx)
	if err != nil {
		return err
	}
	seen := time.Now()
	holding := own != nil && holderOf(own) == r.holder
	switch {
	case holding:
	case r.joined && own == nil:
		return errTaken{}
	case r.joined:
		return errTaken{by: holderOf(own)}
	}
	r.first = !holding && own == nil && !r.written || holding && r.first
	if err := r.write(ctx, own); err != nil || !holding {
		return err
	}
	r.joined = true
	r.accept(start, seen, others)
	r.removeStale(ctx, others)
	return nil
}

// accept applies the result of a round.
func (r *Ring) accept(start, seen time.Time, others []*coordinationv1.Lease) {
	versions := map[string]string{}
	for _, l := range others {
		versions[l.Name] = l.ResourceVersion
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	alone := len(others) == 0 && (r.first || r.view.solo())
	r.first = false
	r.view.see(versions, seen)
	defer r.poke()
	changed, settled := r.view.accept(start, time.Now(), alone)
	r.extendHolds()
	if changed {
		r.Log.Info("the replicas that share the work", "lease", r.name, "members", r.view.past[len(r.view.past)-1].names, "at once", alone)
	}
	if changed || settled {
		r.notify()
	}
}

// drop ends the authority at once.
func (r *Ring) drop() {
	r.joined = false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.lose()
	r.endHolds(time.Now(), true)
	r.notify()
}

// removeStale deletes the Leases of members that ended long ago.
func (r *Ring) removeStale(ctx context.Context, others []*coordinationv1.Lease) {
	for _, l := range others {
		r.mu.Lock()
		s, known := r.view.others[l.Name]
		r.mu.Unlock()
		if !known || time.Since(s.at) < staleAfter {
			continue
		}
		if err := r.remove(ctx, l); err != nil {
			r.Log.Warn("the Lease of a replica that is gone stays", "lease", l.Name, "error", err)
		}
	}
}

// watch acts when a time is over, even while a round waits for an answer: it cancels expired work, and reports when work on gained keys
// may begin.
func (r *Ring) watch(done <-chan struct{}) {
	for {
		r.mu.Lock()
		now := time.Now()
		at := r.endHolds(now, false)
		if r.view.settled(now) {
			r.notify()
		}
		if settled := r.view.changed.Add(Settle); r.view.waits && (at.IsZero() || settled.Before(at)) {
			at = settled
		}
		r.mu.Unlock()
		if !wait(done, r.wake, at) {
			return
		}
	}
}

// wait returns at the time (zero for never), or earlier after an event; it returns false when done is closed.
func wait(done, news <-chan struct{}, at time.Time) bool {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-done:
		return false
	case <-news:
	case <-due:
	}
	return true
}

// poke makes watch read the times again.
func (r *Ring) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// notify closes the channels of Changed. The caller holds the lock.
func (r *Ring) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// leave waits until no work is in progress, and removes the Lease, so that the others need not wait until it expires.
func (r *Ring) leave() {
	r.mu.Lock()
	r.ending = true
	r.notify()
	last := r.view.proof.Add(Valid)
	left := len(r.holds)
	r.mu.Unlock()
	for left > 0 && time.Now().Before(last) {
		wait(nil, r.released, last)
		r.mu.Lock()
		left = len(r.holds)
		r.mu.Unlock()
	}
	if left > 0 {
		r.Log.Warn("work has exceeded its time: the Lease stays until it expires", "lease", r.name, "pieces", left)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own, _, err := r.list(ctx) // the answer to the last write may be missing
	if err == nil && own != nil && holderOf(own) == r.holder {
		err = r.remove(ctx, own)
	}
	if err != nil {
		r.Log.Warn("the Lease stays until it expires", "lease", r.name, "error", err)
	}
}
