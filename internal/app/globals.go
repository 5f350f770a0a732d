package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/globalctx"
	"github.com/ephor-dev/ephor/internal/globalentry"
	"github.com/ephor-dev/ephor/internal/status"
	"github.com/ephor-dev/ephor/internal/world"
)

var globalEntryGVK = schema.GroupVersionKind{Group: globalentry.Group, Version: globalentry.Versions[0], Kind: globalentry.Kind}

// globalFlags bound what GlobalContextEntries take.
type globalFlags struct{ maxEntries, maxBytes int }

func (f *globalFlags) register(fs *pflag.FlagSet) {
	fs.IntVar(&f.maxEntries, "maxGlobalContextEntries", 0, "GlobalContextEntries that have data at the same time; 0 for no limit")
	fs.IntVar(&f.maxBytes, "maxGlobalContextBytes", globalctx.DefaultMaxBytes, "what the resources of all GlobalContextEntries may take together, as JSON; in memory they take a few times more")
}

func (f *globalFlags) complete() error {
	if f.maxEntries < 0 || f.maxBytes <= 0 {
		return errors.New("--maxGlobalContextEntries must not be negative, --maxGlobalContextBytes must be positive")
	}
	return nil
}

// settleTime is how long a new process waits for the data of the entries before it evaluates: until they are there,
// policies that refer to them end in errors.
const settleTime = 10 * time.Second

// globals follows the GlobalContextEntries: it compiles what is new or changed and gives it to the store of this process.
type globals struct {
	store *globalctx.Store
	log   *slog.Logger
	// changed is fired when a status may have to be written.
	changed trigger

	mu sync.Mutex
	// objects are the entries as they were last seen, by name. They are shared with the cache.
	objects map[string]*unstructured.Unstructured
}

// newGlobals returns globals whose data are refreshed until ctx is done.
func newGlobals(ctx context.Context, cfg *rest.Config, f globalFlags, api world.API, services world.Services, events event.Recorder, log *slog.Logger) (*globals, error) {
	resources, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	g := &globals{log: log, changed: newTrigger(), objects: map[string]*unstructured.Unstructured{}}
	g.store = globalctx.New(ctx, globalctx.Options{
		API: api, Services: services, Resources: resources, MaxEntries: f.maxEntries, MaxBytes: f.maxBytes,
		Changed: func(string) { g.changed.fire() },
		Failed:  func(e *globalentry.Entry, err error) { events.Record(g.failure(e.Name, err)) },
		Now:     time.Now, Log: log,
	})
	return g, nil
}

// failure is the event that says why an entry has no data.
func (g *globals) failure(name string, err error) event.Event {
	at := event.Reference{APIVersion: globalEntryGVK.GroupVersion().String(), Kind: globalEntryGVK.Kind, Name: name}
	g.mu.Lock()
	if u := g.objects[name]; u != nil {
		at.UID = string(u.GetUID())
	}
	g.mu.Unlock()
	return event.Event{
		Regarding: at, Type: event.Warning, Reason: event.PolicyError, Action: event.Retrying, Note: err.Error(),
		Controller: event.GlobalContextController,
	}
}

// handler is for the informer of entries.
func (g *globals) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { g.set(obj) },
		UpdateFunc: func(_, obj any) { g.set(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if u, ok := obj.(*unstructured.Unstructured); ok {
				g.mu.Lock()
				delete(g.objects, u.GetName())
				g.mu.Unlock()
				g.store.Delete(u.GetName())
				g.log.Info("global context entry gone", "entry", u.GetName())
			}
		},
	}
}

func (g *globals) set(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	g.mu.Lock()
	old := g.objects[u.GetName()]
	g.objects[u.GetName()] = u
	g.mu.Unlock()
	defer g.changed.fire()
	if old != nil && sameContent(old, u) {
		return
	}
	if old != nil && old.GetUID() != u.GetUID() {
		g.store.Delete(u.GetName()) // another one of the same name has other data
	}
	entry := g.compile(u)
	for _, d := range entry.Diags.Errors() {
		// It was stored before we reviewed entries, or without a review; its readers get an error.
		g.log.Warn("global context entry has a mistake", "entry", entry.Name, "path", d.Path, "mistake", d.Summary)
	}
	g.store.Set(entry)
	g.log.Info("global context entry in force", "entry", entry.Name)
}

// compile must not take the process down, whatever the entry says.
func (g *globals) compile(u *unstructured.Unstructured) (entry *globalentry.Entry) {
	defer func() {
		if v := recover(); v != nil {
			g.log.Error("the compiler panicked", "entry", u.GetName(), "panic", v, "stack", string(debug.Stack()))
			entry = &globalentry.Entry{Name: u.GetName()}
			entry.Diags.Errorf("spec", "the compiler panicked: %v", v)
		}
	}()
	entry, _ = globalentry.Compile(u.Object)
	return entry
}

// settle waits for the data of the entries that exist.
func (g *globals) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	g.store.Settle(ctx)
}

// writeStatus returns a round of the leader: the entries report whether they have data.
func (g *globals) writeStatus(w *status.Writer) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		g.mu.Lock()
		objects := maps.Clone(g.objects)
		g.mu.Unlock()
		var next time.Duration
		var failed error
		for name, object := range objects {
			state, ok := g.store.State(name)
			if !ok || state.Pending {
				continue // what comes of it is news
			}
			want, later := status.GlobalContext(object, state.Err, state.Refreshed, time.Now())
			if _, err := w.WriteGlobalContext(ctx, object, want); err != nil {
				failed = err // the others need theirs, too
			}
			if later > 0 && (next == 0 || later < next) {
				next = later
			}
		}
		return next, failed
	}
}
