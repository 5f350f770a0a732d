package globalctx

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/world"
)

// Options are the dependencies and limits of a Store.
type Options struct {
	// API and Services execute the calls of entries; nil if calls are not allowed.
	API      world.API
	Services world.Services
	// Resources lists and watches the resources of entries.
	Resources dynamic.Interface
	// MaxEntries is the number of entries that may have data at the same time; the others fail until there is room. 0 for no limit.
	MaxEntries int
	// MaxBytes bounds the size of all listed resources together, as JSON; 0 for DefaultMaxBytes.
	MaxBytes int
	// Changed is called for each entry whose State may have changed; nil for none. It must not block.
	Changed func(name string)
	// Failed is called with the reason why an entry has no data, once for each failed refresh; nil for none. It must not block.
	Failed func(e *globalentry.Entry, err error)
	Now    func() time.Time
	Log    *slog.Logger
}

// DefaultMaxBytes is enough for some ten thousand Pods or Deployments. In memory they take a few times more.
const DefaultMaxBytes = 64 << 20

// Store holds the data of entries. It is safe for concurrent use.
type Store struct {
	Options
	capacity *capacity
	sources  controller.Group[source]

	mu      sync.RWMutex
	entries map[string]*kept
}

// kept is an entry with the source of its data. It is never modified, since readers use it without the lock.
type kept struct {
	entry *globalentry.Entry
	// from is nil while the Store is full, and if the entry has mistakes.
	from source
}

// source provides the data of one entry and keeps them current while it runs.
type source interface {
	controller.Source
	// data returns the current data, which is replaced but never modified.
	data() *data
	// tried returns a channel that is closed at the first data or error.
	tried() <-chan struct{}
	// end releases the data.
	end()
}

// State is the state of an entry.
type State struct {
	// Err is the reason why there are no data; nil if there are data.
	Err error
	// Pending: the first attempt to load the data is not over.
	Pending bool
	// Refreshed is the time of the data: for a call, its last answer; for resources, their last list, after which they are watched. It
	// is zero without data.
	Refreshed time.Time
}

// New returns an empty Store. It refreshes its data while it runs as a source of a row.
func New(o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Failed == nil {
		o.Failed = func(*globalentry.Entry, error) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{Options: o, capacity: &capacity{max: o.MaxBytes}, entries: map[string]*kept{}}
}

// Start implements controller.Source.
func (s *Store) Start(ctx context.Context, add func(key string)) func() error {
	return s.sources.Start(ctx, add)
}

// Set adds or replaces an entry. If the new entry has the same source, it keeps the data.
func (s *Store) Set(e *globalentry.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &kept{entry: e}
	if old := s.entries[e.Name]; old != nil {
		if old.from != nil && !e.Diags.HasErrors() && sameSource(old.entry, e) {
			next.from = old.from
		} else {
			old.end()
		}
	}
	s.entries[e.Name] = next
	s.startWaiting()
	s.Changed(e.Name)
	next = s.entries[e.Name]
	if err := next.state(s.MaxEntries).Err; err != nil && next.from == nil {
		s.Failed(e, err)
	}
}

func sameSource(a, b *globalentry.Entry) bool {
	return reflect.DeepEqual(a.Resource, b.Resource) && reflect.DeepEqual(a.Call, b.Call)
}

// Delete removes an entry and its data.
func (s *Store) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.entries[name]; old != nil {
		old.end()
		delete(s.entries, name)
		s.startWaiting()
	}
}

func (k *kept) end() {
	if k.from != nil {
		k.from.end()
	}
}

// startWaiting starts the sources of entries that have none, in order of their names, while there is room, and ends those without an entry.
func (s *Store) startWaiting() {
	defer s.run()
	running := 0
	var waiting []string
	for name, k := range s.entries {
		switch {
		case k.from != nil:
			running++
		case !k.entry.Diags.HasErrors():
			waiting = append(waiting, name)
		}
	}
	slices.Sort(waiting)
	for _, name := range waiting {
		if s.MaxEntries > 0 && running >= s.MaxEntries {
			return
		}
		running++
		e := s.entries[name].entry
		s.entries[name] = &kept{e, s.start(e)}
		s.Changed(name)
	}
}

// run runs the sources of the entries, and ends the others.
func (s *Store) run() {
	want := map[source]controller.Source{}
	for _, k := range s.entries {
		if k.from != nil {
			want[k.from] = k.from
		}
	}
	s.sources.Set(want)
}

// start returns the source of an entry.
func (s *Store) start(e *globalentry.Entry) source {
	p := &publisher{
		changed: func() { s.Changed(e.Name) },
		failed: func(err error) {
			s.Log.Warn("a global context entry has no data", "entry", e.Name, "error", err)
			s.Failed(e, err)
		},
		now:   s.Now,
		first: make(chan struct{}),
	}
	if e.Resource != nil {
		return watchResources(s, e.Resource, p)
	}
	return repeatCall(s, e.Call, p)
}

// Global is world.Globals. Names of entries and of projections may both contain dots: an entry with the whole name wins,
// otherwise the shortest name that an entry has.
func (s *Store) Global(ctx context.Context, asked world.GlobalRequest) (any, error) {
	name := string(asked)
	k, projection := s.find(name)
	if k == nil {
		entry, _, _ := strings.Cut(name, ".")
		return nil, &world.NoGlobalError{Message: "there is no GlobalContextEntry " + entry}
	}
	if err := k.state(s.MaxEntries).Err; err != nil {
		return nil, err
	}
	return k.from.data().read(ctx, k.entry, projection)
}

// OfSecrets reports whether the entry holds Secrets. A name with a projection stands for its entry.
func (s *Store) OfSecrets(name string) bool {
	k, _ := s.find(name)
	return k != nil && k.entry.OfSecrets()
}

func (s *Store) find(name string) (k *kept, projection string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if k := s.entries[name]; k != nil {
		return k, ""
	}
	for i := range len(name) {
		if name[i] == '.' {
			if k := s.entries[name[:i]]; k != nil {
				return k, name[i+1:]
			}
		}
	}
	return nil, ""
}

// State returns the state of an entry; false if the entry does not exist.
func (s *Store) State(name string) (State, bool) {
	s.mu.RLock()
	k := s.entries[name]
	s.mu.RUnlock()
	if k == nil {
		return State{}, false
	}
	return k.state(s.MaxEntries), true
}

func (k *kept) state(limit int) State {
	switch {
	case k.entry.Diags.HasErrors():
		return State{Err: fmt.Errorf("the GlobalContextEntry %s has a mistake: %s", k.entry.Name, k.entry.Diags.Errors()[0].Summary)}
	case k.from == nil:
		return State{Err: fmt.Errorf("the GlobalContextEntry %s has no data: there are %d entries already, the limit of --maxGlobalContextEntries", k.entry.Name, limit)}
	}
	d := k.from.data()
	if d.err != nil {
		err := fmt.Errorf("the GlobalContextEntry %s has no data: %w", k.entry.Name, d.err)
		return State{Err: err, Pending: d.err == errNotYet, Refreshed: d.refreshed}
	}
	return State{Refreshed: d.refreshed}
}

// Settle waits until every current entry was tried once, or until ctx is done.
func (s *Store) Settle(ctx context.Context) {
	s.mu.RLock()
	var tried []<-chan struct{}
	for _, k := range s.entries {
		if k.from != nil {
			tried = append(tried, k.from.tried())
		}
	}
	s.mu.RUnlock()
	for _, t := range tried {
		select {
		case <-t:
		case <-ctx.Done():
			return
		}
	}
}
