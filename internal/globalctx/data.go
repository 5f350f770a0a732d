package globalctx

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ephor-dev/ephor/internal/globalentry"
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
	// projections caches computed projections, by name and compiled entry.
	projections map[projection]projected
}

type projection struct {
	entry *globalentry.Entry
	name  string
}

type projected struct {
	value any
	err   error
}

// read returns the data, or a projection of them.
func (d *data) read(ctx context.Context, e *globalentry.Entry, name string) (any, error) {
	if d.err != nil {
		return nil, d.err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.make != nil {
		v, err := d.make()
		if err != nil {
			return nil, err
		}
		d.value, d.make = v, nil
	}
	if name == "" {
		return e.Project(ctx, "", d.value)
	}
	key := projection{e, name}
	if p, ok := d.projections[key]; ok {
		return p.value, p.err
	}
	v, err := e.Project(ctx, name, d.value)
	if ctx.Err() != nil {
		return v, err // the evaluation failed, not the data
	}
	if d.projections == nil || len(d.projections) > maxProjections {
		d.projections = map[projection]projected{}
	}
	d.projections[key] = projected{v, err}
	return v, err
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
