package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/globalctx"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/world"
)

// globalFlags limit the resources of GlobalContextEntries.
type globalFlags struct{ maxEntries, maxBytes int }

func (f *globalFlags) register(fs *pflag.FlagSet) {
	fs.IntVar(&f.maxEntries, "maxGlobalContextEntries", 0, "maximum number of GlobalContextEntries that hold data at the same time; 0 for no limit")
	fs.IntVar(&f.maxBytes, "maxGlobalContextBytes", globalctx.DefaultMaxBytes, "maximum total size in bytes of the resources of all GlobalContextEntries, as JSON; in memory they take several times as much")
}

func (f *globalFlags) complete() error {
	if f.maxEntries < 0 || f.maxBytes <= 0 {
		return errors.New("--maxGlobalContextEntries must not be negative, --maxGlobalContextBytes must be positive")
	}
	return nil
}

// settleTime is how long a new process waits for the data of the entries before it evaluates policies. Without the data, policies that
// read entries end in errors.
const settleTime = 10 * time.Second

// globals holds the GlobalContextEntries and their data.
type globals struct {
	*intake.Entries
	// changed is fired when a status may have to be written.
	changed *controller.Signal
}

// newGlobals returns globals. Their data is refreshed until ctx is done.
func newGlobals(ctx context.Context, cfg *rest.Config, f globalFlags, api world.API, services world.Services, events event.Recorder, log *slog.Logger) (*globals, error) {
	resources, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	g := &globals{changed: &controller.Signal{}}
	g.Entries = intake.NewEntries(g.changed.Fire, log)
	g.Store = globalctx.New(ctx, globalctx.Options{
		API: api, Services: services, Resources: resources, MaxEntries: f.maxEntries, MaxBytes: f.maxBytes,
		Changed: func(string) { g.changed.Fire() },
		Failed:  func(e *globalentry.Entry, err error) { events.Record(g.failure(e.Name, err)) },
		Now:     time.Now, Log: log,
	})
	return g, nil
}

// failure returns the event for an entry without data.
func (g *globals) failure(name string, err error) event.Event {
	at := event.Reference{APIVersion: intake.EntryKind.GroupVersion().String(), Kind: intake.EntryKind.Kind, Name: name}
	if u := g.Get(name); u != nil {
		at.UID = string(u.GetUID())
	}
	return event.Event{
		Regarding: at, Type: event.Warning, Reason: event.PolicyError, Action: event.Retrying, Note: err.Error(),
		Controller: event.GlobalContextController,
	}
}

// settle waits for the data of the existing entries.
func (g *globals) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	g.Store.Settle(ctx)
}

// writeStatus returns a round of the leader that writes to the status of entries whether they have data.
func (g *globals) writeStatus(w *status.Writer) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		var next time.Duration
		var failed error
		for name, object := range g.All() {
			state, ok := g.Store.State(name)
			if !ok || state.Pending {
				continue // the arrival of the result starts another round
			}
			want, later := status.GlobalContext(object, state.Err, state.Refreshed, time.Now())
			if _, err := w.WriteGlobalContext(ctx, object, want); err != nil {
				failed = err // continue, since the others need their status, too
			}
			if later > 0 && (next == 0 || later < next) {
				next = later
			}
		}
		return next, failed
	}
}
