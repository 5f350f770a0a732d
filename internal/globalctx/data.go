package globalctx

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ephor.invalid/ephor/internal/globalentry"
)

// errNotYet is the error of an entry before its first refresh ends.
var errNotYet = errors.New("it has not been fetched yet")

// data is the data of an entry at one time, or the reason why there are none.
type data struct {
	err       error
	refreshed time.Time

	mu    sync.Mutex
	value any
	// make computes the value at the first read; nil if the value exists already.
	make func() (any, error)
	// projections caches projections, by name and compiled entry.
	projections map[projection]*projected
}

type projection struct {
	entry *globalentry.Entry
	name  string
}

// projected is a projection that is computed, or being computed by one of its readers.
type projected struct {
	done  chan struct{} // closed when value and err are there
	value any
	err   error
	// undone: the reader that computed it has ended.
	undone bool
}

// read returns the data, or a projection of them. Readers of one projection wait for the first of them, and for no other.
func (d *data) read(ctx context.Context, e *globalentry.Entry, name string) (any, error) {
	if d.err != nil {
		return nil, d.err
	}
	if err := d.made(); err != nil {
		return nil, err
	}
	if name == "" {
		return e.Project(ctx, "", d.value)
	}
	key := projection{e, name}
	for {
		p, first := d.projection(key)
		if first {
			d.compute(ctx, key, p)
			return p.value, p.err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !p.undone {
			return p.value, p.err
		}
	}
}

// made computes the value, if it does not exist.
func (d *data) made() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.make == nil {
		return nil
	}
	v, err := d.make()
	if err == nil {
		d.value, d.make = v, nil
	}
	return err
}

// projection returns a projection, and whether the caller is the first one that reads it.
func (d *data) projection(key projection) (p *projected, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.projections[key]; p != nil {
		return p, false
	}
	if d.projections == nil || len(d.projections) > maxProjections {
		d.projections = map[projection]*projected{}
	}
	p = &projected{done: make(chan struct{}), undone: true}
	d.projections[key] = p
	return p, true
}

// compute computes a projection. If the evaluation of its reader ends first, the next reader computes it.
func (d *data) compute(ctx context.Context, key projection, p *projected) {
	defer func() {
		if p.undone {
			d.mu.Lock()
			if d.projections[key] == p {
				delete(d.projections, key)
			}
			d.mu.Unlock()
		}
		close(p.done)
	}()
	p.value, p.err = key.entry.Project(ctx, key.name, d.value)
	p.undone = ctx.Err() != nil
}

// maxProjections bounds the cache, in case names belong to no entry or entries are replaced.
const maxProjections = 1000

// publisher holds the current data of a source and reports changes.
type publisher struct {
	current atomic.Pointer[data]
	first   chan struct{}
	opened  sync.Once
	changed func()
	failed  func(error)
	now     func() time.Time
}

func (p *publisher) tried() <-chan struct{} { return p.first }

// get returns the current data, or an error before the first ones.
func (p *publisher) get() *data {
	if d := p.current.Load(); d != nil {
		return d
	}
	return &data{err: errNotYet}
}

// put replaces the data.
func (p *publisher) put(d *data) {
	p.current.Store(d)
	p.opened.Do(func() { close(p.first) })
	p.changed()
}

// fail replaces the data by the error, and keeps the time of the last data.
func (p *publisher) fail(err error) {
	p.put(&data{err: err, refreshed: p.get().refreshed})
	p.failed(err)
}
