package catalog

import (
	"context"
	"sync"
	"sync/atomic"

	"ephor.invalid/ephor/internal/index"
	"ephor.invalid/ephor/internal/policy"
)

// ID identifies a policy.
type ID = policy.ID

// IDOf returns the ID of a Program.
func IDOf(p *policy.Program) ID { return p.Identity() }

// IDs is a set of policies.
type IDs map[ID]bool

// AnyNamespace is the namespace of an ID that stands for all policies of that kind and name. A request is evaluated only by cluster-wide
// policies and those of its own namespace.
const AnyNamespace = "*"

// Has reports whether the set names the Program.
func (s IDs) Has(p *policy.Program) bool {
	return s[IDOf(p)] || s[ID{Kind: p.Kind, Namespace: AnyNamespace, Name: p.Name}]
}

// Catalog is the changing set of Programs. Its methods are safe for concurrent use; Snapshot never waits.
type Catalog struct {
	snapshot atomic.Pointer[Snapshot]

	mu          sync.Mutex // serializes changes
	subscribers map[chan struct{}]struct{}
}

// New returns an empty Catalog.
func New() *Catalog {
	c := &Catalog{subscribers: map[chan struct{}]struct{}{}}
	c.snapshot.Store(newSnapshot(index.New(nil), nil))
	return c
}

// Snapshot returns the current state. It is never nil.
func (c *Catalog) Snapshot() *Snapshot { return c.snapshot.Load() }

// Set adds Programs, or replaces those with the same ID.
func (c *Catalog) Set(programs ...*policy.Program) { c.Apply(programs, nil) }

// Delete removes the Programs with these IDs. It ignores IDs without a Program.
func (c *Catalog) Delete(ids ...ID) { c.Apply(nil, ids) }

// Apply makes all changes at once: subscribers and requests see either none or all of them. Of several Programs with the same ID the last
// one counts, and a Program that is both set and deleted is deleted. Without a change, no new Snapshot is made and no subscriber is
// notified.
func (c *Catalog) Apply(set []*policy.Program, remove []ID) {
	c.apply(changes{set: set, remove: remove})
}

// SetException adds an exception, or replaces the one with the same ID, and joins it to the rules that it names.
func (c *Catalog) SetException(e *policy.Exception) {
	c.apply(changes{exceptions: map[policy.ExceptionID]*policy.Exception{e.ID(): e}})
}

// DeleteException removes the exception with that ID, if there is one.
func (c *Catalog) DeleteException(id policy.ExceptionID) {
	c.apply(changes{exceptions: map[policy.ExceptionID]*policy.Exception{id: nil}})
}

func (c *Catalog) apply(change changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.snapshot.Load().with(change)
	if next == nil {
		return
	}
	c.snapshot.Store(next)
	for ch := range c.subscribers {
		wake(ch)
	}
}

// Subscribe returns a channel that becomes readable after every change, and at once for the current state. Several changes before it is
// read cause one wake-up. The reader then calls Snapshot. cancel ends the subscription; the channel is not closed.
func (c *Catalog) Subscribe() (changed <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	wake(ch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[ch] = struct{}{}
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, ch)
	}
}

// Start implements controller.Source: it adds a key for the current state and after changes.
func (c *Catalog) Start(ctx context.Context, add func(key string)) func() error {
	return func() error {
		c.Follow(ctx, func(*Snapshot) { add("") })
		return nil
	}
}

// Follow calls observe for the current state and after changes, until ctx is done. Changes during a call cause one more call.
func (c *Catalog) Follow(ctx context.Context, observe func(*Snapshot)) {
	changed, cancel := c.Subscribe()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			observe(c.Snapshot())
		}
	}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // the reader has not read it since the last change
	}
}
