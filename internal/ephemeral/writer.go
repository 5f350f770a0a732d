package ephemeral

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// The reasons for results that were not sent, as Observer receives them.
const (
	// NobodyThere: there is no reports controller, or it has not renewed its Lease for five minutes.
	NobodyThere = "no reports controller"
	// QueueFull: too many results wait to be written.
	QueueFull = "queue full"
	// NotWritten: the API server rejected the object.
	NotWritten = "not written"
	// NoName: the object is about to be created, and is mutated before the API server generates its name.
	NoName = "no name yet"
)

// Observer counts.
type Observer interface {
	// Asked is called for each object that is about to be written, with whether it was dropped because there are too many
	// objects.
	Asked(dropped bool)
	// Unsent is called for each resource whose results are not sent, with the reason.
	Unsent(why string)
}

// Options of a Writer. All are required, except where the comment allows nil.
type Options struct {
	Store Store
	// View is what is known of the reports controller; nil to always send results.
	View *View
	// Rules are the kinds of rules whose results are reported, in the notation of --enableReporting; nil for all.
	Rules []string
	// Allowed are the statuses that are reported; nil for all.
	Allowed  report.Allowed
	Observer Observer // nil for none
	Log      *slog.Logger
	Now      func() time.Time
}

const (
	// gather is the time that the first result of a resource waits for others, and for the API server to store the object:
	// an object whose owner does not exist is garbage-collected.
	gather = 2 * time.Second
	// repeatAfter is the time after which unchanged results of a resource are sent again. They must be sent, since another
	// replica may have found others meanwhile; but resources that are updated every second are common.
	repeatAfter = time.Minute
	// look is the shortest pause between two rounds of writing.
	look = 500 * time.Millisecond
	// maxWaiting and maxBytes bound the waiting results, in resources and in bytes.
	maxWaiting = 10_000
	maxBytes   = 16 << 20
	// remembered bounds the number of resources whose last results are remembered; up to twice as many are.
	remembered = 10_000
	// firstRetry is the pause after a write that may succeed later, which doubles each time; after maxRetries the results are lost.
	firstRetry = 2 * time.Second
	maxRetries = 6
	// shutdownTime is the time to write waiting results when the process stops.
	shutdownTime = 5 * time.Second
)

// Writer sends results. It is safe for concurrent use.
type Writer struct {
	Options
	first controller.Signal // results wait, and none did before

	mu      sync.Mutex
	closed  bool
	waiting map[string]*pending // by key of the resource
	bytes   int
	sent    memory
}

// pending are results of a resource that wait to be written.
type pending struct {
	resource report.Resource
	gvr      schema.GroupVersionResource
	parts    []part // in order of time; each rule is in one of them
	bytes    int
	due      time.Time
	failures int // of its writes, in a row
}

// part holds results that were found in the same second.
type part struct {
	seconds int64
	entries []report.Entry
}

// New returns a Writer; results wait until its Row, or End, writes them.
func New(o Options) *Writer {
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return &Writer{Options: o, waiting: map[string]*pending{}}
}

type unobserved struct{}

func (unobserved) Asked(bool)    {}
func (unobserved) Unsent(string) {}

// Put sends the results that scans will not find. It never blocks, and keeps no reference to the request. A nil Writer
// sends nothing.
func (w *Writer) Put(req *policy.Request, results []policy.Result) {
	if w == nil || len(results) == 0 || !reported(req) {
		return
	}
	now := w.Now()
	scans, there := Scans{}, true
	if w.View != nil {
		scans, there = w.View.At(now)
	}
	kind, n := req.GVK.GroupKind(), 0
	for i := range results {
		if w.sends(&results[i], kind, scans) {
			n++
		}
	}
	switch {
	case n == 0:
		return
	case !there:
		w.Observer.Unsent(NobodyThere)
		return
	}
	out := policy.Outcome{Request: req, Results: make([]policy.Result, 0, n)}
	for i := range results {
		if w.sends(&results[i], kind, scans) {
			out.Results = append(out.Results, results[i])
		}
	}
	entries := w.Allowed.Filter(report.Entries(out, report.Options{Matched: true}))
	if len(entries) > 0 {
		w.addEntries(now, req, entries)
	}
}

func (w *Writer) sends(r *policy.Result, kind schema.GroupKind, s Scans) bool {
	return (w.Rules == nil || slices.Contains(w.Rules, Reporting(r.Rule))) && Sends(r.Program, r.Rule, kind, s)
}

// addEntries adds entries to the waiting ones of the same resource.
func (w *Writer) addEntries(now time.Time, req *policy.Request, entries []report.Entry) {
	r := *entries[0].Resource
	if r.Kind == "Namespace" && r.APIVersion == "v1" {
		r.Namespace = "" // the review has the Namespace's own name there
	}
	if r.UID == "" && r.Name == "" {
		w.Observer.Unsent(NoName)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.waiting[key(&r)]
	if p == nil && r.UID != "" {
		p = w.born(&r)
	}
	if p == nil {
		if w.closed || len(w.waiting) >= maxWaiting || w.bytes >= maxBytes {
			w.Observer.Unsent(QueueFull)
			return
		}
		p = &pending{gvr: req.GVR, due: now.Add(gather)}
	}
	p.resource = r
	for i := range entries {
		entries[i] = detached(entries[i])
	}
	w.waiting[key(&r)] = p
	w.bytes -= p.bytes
	p.add(now.Unix(), entries)
	w.bytes += p.bytes
	if len(w.waiting) == 1 {
		w.first.Fire() // otherwise a round is due already
	}
}

// key identifies a resource: by its UID, or by its name if it has none yet, for example while a new object is mutated.
func key(r *report.Resource) string {
	if r.UID != "" {
		return r.UID
	}
	return "/" + r.APIVersion + "/" + r.Kind + "/" + r.Namespace + "/" + r.Name
}

// born returns and removes the entries that waited while the resource had no UID; nil for none.
func (w *Writer) born(r *report.Resource) *pending {
	before := *r
	before.UID = ""
	p := w.waiting[key(&before)]
	delete(w.waiting, key(&before))
	return p
}

// add adds entries, replacing those of the same rules.
func (p *pending) add(seconds int64, entries []report.Entry) {
	for i := range p.parts {
		p.parts[i].entries = slices.DeleteFunc(p.parts[i].entries, func(old report.Entry) bool {
			return slices.ContainsFunc(entries, func(e report.Entry) bool {
				return report.RuleIn(e.Program, e.Rule) == report.RuleIn(old.Program, old.Rule)
			})
		})
	}
	p.parts = slices.DeleteFunc(p.parts, func(old part) bool { return len(old.entries) == 0 })
	if last := len(p.parts) - 1; last >= 0 && p.parts[last].seconds == seconds {
		p.parts[last].entries = append(p.parts[last].entries, entries...)
	} else {
		p.parts = append(p.parts, part{seconds, entries})
	}
	p.bytes = 0
	for i := range p.parts {
		for j := range p.parts[i].entries {
			p.bytes += size(&p.parts[i].entries[j])
		}
	}
}

// detached returns the entry with copies of its texts, which may be parts of the text of a large review.
func detached(e report.Entry) report.Entry {
	e.Message, e.Path = strings.Clone(e.Message), strings.Clone(e.Path)
	if len(e.Properties) > 0 {
		properties := make(map[string]string, len(e.Properties))
		for k, v := range e.Properties {
			properties[strings.Clone(k)] = strings.Clone(v)
		}
		e.Properties = properties
	}
	return e
}

// size returns the approximate memory of an entry, in bytes.
func size(e *report.Entry) int {
	const fields = 250
	n := fields + len(e.Message) + len(e.Path)
	for k, v := range e.Properties {
		n += len(k) + len(v)
	}
	return n
}

// Waiting returns the number of resources whose results wait to be written.
func (w *Writer) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// Row returns the row that writes the results that are due.
func (w *Writer) Row() controller.Row {
	return controller.Row{Name: "results-sending", Sources: []controller.Source{&w.first}, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) {
		w.flush(ctx, func(p *pending, now time.Time) bool { return !p.due.After(now) })
		w.mu.Lock()
		defer w.mu.Unlock()
		var next time.Duration
		for _, p := range w.waiting {
			if wait := max(look, p.due.Sub(w.Now())); next == 0 || wait < next {
				next = wait
			}
		}
		return next, nil
	}, Collect: look}
}

// End waits until ctx is done, and then writes what waits, for a few seconds.
func (w *Writer) End(ctx context.Context) {
	<-ctx.Done()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer stop()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.flush(last, func(*pending, time.Time) bool { return true })
}
