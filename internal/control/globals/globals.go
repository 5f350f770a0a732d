package globals

import (
	"context"
	"errors"
	"log/slog"
	"time"

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

// settleTime is how long a new process waits for the data of the entries before it evaluates policies. Without the data, policies that
// read entries end in errors.
const settleTime = 10 * time.Second

// Globals holds the GlobalContextEntries and their data.
type Globals struct {
	*intake.Entries
	// Changed is fired when a status may have to be written.
	Changed *controller.Signal
}

// New returns Globals.
func New(cfg *rest.Config, f Flags, api world.API, services world.Services, events event.Recorder, log *slog.Logger) (*Globals, error) {
	resources, err := dynamic.NewForConfig(controller.Paged(cfg))
	if err != nil {
		return nil, err
	}
	g := &Globals{Changed: &controller.Signal{}}
	g.Entries = intake.NewEntries(g.Changed.Fire, log)
	g.Store = globalctx.New(globalctx.Options{
		API: api, Services: services, Resources: resources, MaxEntries: f.maxEntries, MaxBytes: f.maxBytes,
		Changed: func(string) { g.Changed.Fire() },
		Failed:  func(e *globalentry.Entry, err error) { events.Record(g.failure(e.Name, err)) },
		Now:     time.Now, Log: log,
	})
	return g, nil
}

// failure returns the event for an entry without data.
func (g *Globals) failure(name string, err error) event.Event {
	at := event.Reference{APIVersion: intake.EntryKind.GroupVersion().String(), Kind: intake.EntryKind.Kind, Name: name}
	if u := g.Get(name); u != nil {
		at.UID = string(u.GetUID())
	}
	return event.Event{
		Regarding: at, Type: event.Warning, Reason: event.PolicyError, Action: event.Retrying, Note: err.Error(),
		Controller: event.GlobalContextController,
	}
}

// Data returns the row that refreshes the data of the entries.
func (g *Globals) Data() controller.Row {
	return controller.Row{Name: "global-context-data", Sources: []controller.Source{g.Store}}
}

// Settle waits for the data of the existing entries.
func (g *Globals) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	g.Store.Settle(ctx)
}

// Reconcile returns the Reconcile of the leader, which writes to the status of entries whether they have data.
func (g *Globals) Reconcile(w *status.Writer) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		var next time.Duration
		var errs []error
		for name, object := range g.All() {
			state, ok := g.Store.State(name)
			if !ok || state.Pending {
				continue // the arrival of the result starts another round
			}
			want, later := status.GlobalContext(object, state.Err, state.Refreshed, time.Now())
			if _, err := w.WriteGlobalContext(ctx, object, want); err != nil {
				errs = append(errs, err) // continue, since the others need their status, too
			}
			if later > 0 && (next == 0 || later < next) {
				next = later
			}
		}
		return next, errors.Join(errs...)
	}
}
