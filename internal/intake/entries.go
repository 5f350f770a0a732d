package intake

import (
	"log/slog"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/globalctx"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/policy"
)

// EntryKind is the kind of GlobalContextEntries.
var EntryKind = schema.GroupVersionKind{Group: globalentry.Group, Version: globalentry.Versions[0], Kind: globalentry.Kind}

// Entries follows the GlobalContextEntries, compiles new and changed ones, and passes them to the store of the process.
type Entries struct {
	Store *globalctx.Store
	// Seen is called after each event.
	Seen func()
	Log  *slog.Logger

	objects objects
}

// NewEntries returns Entries; their Watches follow the objects. The store may be set later, before the first event.
func NewEntries(seen func(), log *slog.Logger) *Entries {
	g := &Entries{Seen: seen, Log: log}
	g.objects = objects{log: log, take: g.update, drop: g.drop, seen: seen}
	return g
}

// Watches returns the informers of the entries.
func (g *Entries) Watches() []Watch {
	return []Watch{{Object: Object(EntryKind), Resource: "globalcontextentries", Older: globalentry.Versions[1:], Optional: true, Handler: g.objects.handler()}}
}

// Get returns the last known state of an entry; nil if there is none.
func (g *Entries) Get(name string) *unstructured.Unstructured {
	return g.objects.get(policy.ID{Kind: globalentry.Kind, Name: name})
}

// All returns the last known state of all entries, by name. The objects are shared and read-only.
func (g *Entries) All() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for id, u := range g.objects.list() {
		out[id.Name] = u
	}
	return out
}

func (g *Entries) update(old, u *unstructured.Unstructured) error {
	if old != nil && old.GetUID() != u.GetUID() {
		g.Store.Delete(u.GetName()) // the new entry with the same name has other data
	}
	entry := &globalentry.Entry{Name: u.GetName()}
	if err := g.objects.safely(u, func() error { entry, _ = globalentry.Compile(u.Object); return nil }); err != nil {
		entry.Diags.Errorf("spec", "%v", err)
	}
	for _, d := range entry.Diags.Errors() {
		// It was stored before entries were reviewed, or without a review. Its readers get an error.
		g.Log.Warn("global context entry has a mistake", "entry", entry.Name, "path", d.Path, "mistake", d.Summary)
	}
	g.Store.Set(entry)
	g.Log.Info("global context entry in force", "entry", entry.Name)
	return nil
}

func (g *Entries) drop(u *unstructured.Unstructured) {
	g.Store.Delete(u.GetName())
	g.Log.Info("global context entry deleted", "entry", u.GetName())
}
