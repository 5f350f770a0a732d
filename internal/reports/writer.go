package reports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// Options are the options of a Writer. All are required, except where noted.
type Options struct {
	// Client reads and writes reports without a cache; Metadata lists and watches them.
	Client   client.Client
	Metadata metadata.Interface
	// Form is the API in which reports are written: PolicyReports or OpenReports.
	Form Form
	// Allowed are the statuses that are reported; nil for all.
	Allowed report.Allowed
	// Again requests another evaluation of a resource whose report another client changed or deleted. It must not block.
	Again func(gk schema.GroupKind, uid string)

	Log *slog.Logger
	Now func() time.Time
}

// Writer writes the reports of the resources. It is safe for concurrent use.
type Writer struct {
	o         Options
	resources lock.Keyed // by UID: one goroutine at a time writes about a resource

	ready chan struct{} // closed when all reports are known

	mu      sync.Mutex
	known   map[types.NamespacedName]*state // by the namespace and the UID of the resource, which is the name of the report
	numbers numbers
	texts   map[string]string
	rules   map[report.Rule]*report.Rule
}

// New returns a Writer that knows no reports yet.
func New(o Options) *Writer {
	return &Writer{
		o: o, ready: make(chan struct{}), known: map[types.NamespacedName]*state{}, texts: map[string]string{}, rules: map[report.Rule]*report.Rule{},
		numbers: numbers{of: map[report.ID]uint64{}, ids: map[uint64]report.ID{}},
	}
}

// alone waits until no other goroutine writes about the resource; the caller calls done when it has finished.
func (w *Writer) alone(ctx context.Context, uid string) (done func(), err error) {
	return w.resources.Lock(ctx, uid)
}

// conflicts bounds the retries after conflicts with another writer.
const conflicts = 3

// Put writes the results of the outcome to the report of the request's object. They replace the results that the outcome covers; without
// results there is no report. Put reports whether it changed anything.
func (w *Writer) Put(ctx context.Context, out policy.Outcome, evaluated report.Evaluated) (changed bool, err error) {
	resource := report.ResourceOf(out.Request)
	if resource.UID == "" {
		return false, nil // the object cannot own a report
	}
	results := report.Results(w.o.Allowed.Filter(report.Entries(out, report.Options{Matched: true})), w.o.Now().Unix())
	done, err := w.alone(ctx, resource.UID)
	if err != nil {
		return false, err
	}
	defer done()
	return w.put(ctx, resource, results, &evaluated)
}

// put is Put for a resource that the caller has locked.
func (w *Writer) put(ctx context.Context, resource *report.Resource, results []policyreport.Result, evaluated *report.Evaluated) (changed bool, err error) {
	w.mu.Lock()
	want := w.numbers.parts(resource, results)
	st := w.known[reportOf(resource)]
	w.mu.Unlock()
	if st == nil && len(results) == 0 || w.says(resource, want, evaluated) {
		return false, nil
	}
	st = w.begin(resource)
	defer func() { w.end(resource, st) }()
	return w.retryConflicts(st, func() (bool, error) { return w.merge(ctx, resource, results, evaluated, want, st) })
}

// retryConflicts repeats a write a few times after a conflict with another writer, and reads the report first.
func (w *Writer) retryConflicts(st *state, write func() (bool, error)) (changed bool, err error) {
	for range conflicts {
		changed, err = write()
		switch {
		case namespaceGone(err):
			return false, nil // and so was the resource
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
			w.forgetVersion(st)
			continue
		}
		return changed, err
	}
	return false, err
}

// namespaceGone reports whether the write failed because the namespace is deleted or terminating.
func namespaceGone(err error) bool {
	var s apierrors.APIStatus
	if apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return true
	}
	return errors.As(err, &s) && apierrors.IsNotFound(err) && s.Status().Details != nil && s.Status().Details.Kind == "namespaces"
}

// merge writes the results into the report beside its other results, unless the report already contains all of them.
func (w *Writer) merge(ctx context.Context, r *report.Resource, results []policyreport.Result, evaluated *report.Evaluated, want []part, st *state) (changed bool, err error) {
	w.mu.Lock()
	version, loaded, alone := st.version, st.loaded, len(st.others) == 0
	w.mu.Unlock()
	now := state{version: version, loaded: evaluated.Policies == nil || loaded}
	all := compose(results)
	// A report that contains only scan results need not be read before all of it is replaced.
	if version != "" && !(loaded && alone && evaluated.Policies == nil) {
		existing := w.o.Form.report(r)
		err := w.o.Client.Get(ctx, client.ObjectKeyFromObject(existing), existing)
		switch {
		case apierrors.IsNotFound(err):
			now.version = ""
		case err != nil:
			return false, err
		default:
			held := split(w.o.Form.content(existing).Results, evaluated)
			others := report.WithoutCovered(held.others, slices.Concat(results, held.others, held.unevaluated))
			now.version, now.others = existing.GetResourceVersion(), w.rulesOf(others)
			all = compose(results, others, held.unevaluated)
			if same(r, w.o.Form.content(existing).Results, all) && w.o.Form.intact(existing, r) {
				w.wrote(st, r, &now, want, evaluated)
				return false, nil
			}
		}
	}
	if len(all) == 0 {
		return w.remove(ctx, r, st, now.version)
	}
	object := w.o.Form.report(r)
	w.o.Form.fill(object, &policyreport.ReportContent{Scope: r.Scope(), Summary: report.Summarize(all), Results: all})
	if now.version == "" {
		err = w.o.Client.Create(ctx, object)
	} else {
		object.SetResourceVersion(now.version)
		err = w.o.Client.Update(ctx, object)
	}
	if err != nil {
		return false, err
	}
	now.version = object.GetResourceVersion()
	w.wrote(st, r, &now, want, evaluated)
	return true, nil
}

// compose returns the results of a report as they are written.
func compose(results ...[]policyreport.Result) []policyreport.Result {
	all := slices.Concat(results...)
	report.Sort(all)
	report.Bound(all)
	return all
}

// held are the results of a report that stay: those of scanned policies that were not evaluated, and those of other processes.
type held struct{ unevaluated, others []policyreport.Result }

// split returns the results that an outcome does not replace.
func split(results []policyreport.Result, evaluated *report.Evaluated) held {
	var h held
	for _, r := range results {
		rule := report.RuleOf(&r)
		switch {
		case evaluated.Elsewhere != nil && evaluated.Elsewhere(rule):
			h.others = append(h.others, r)
		case !evaluated.Replaces(rule):
			h.unevaluated = append(h.unevaluated, r)
		}
	}
	return h
}

// wrote records the written content of the report.
func (w *Writer) wrote(st *state, r *report.Resource, now *state, want []part, evaluated *report.Evaluated) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.about(st, r)
	st.version, st.loaded, st.others = now.version, now.loaded, now.others
	if evaluated.Policies == nil {
		st.parts = want
		return
	}
	kept := slices.DeleteFunc(slices.Clone(st.parts), func(p part) bool { return evaluated.Policies[w.numbers.ids[p.policy()]] })
	st.parts = append(kept, want...)
	slices.Sort(st.parts)
}

// remove deletes the report of the resource in a version, if there is one: another replica may have added results.
func (w *Writer) remove(ctx context.Context, r *report.Resource, st *state, version string) (bool, error) {
	if version != "" {
		err := w.o.Client.Delete(ctx, w.o.Form.report(r), client.Preconditions{ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete the report %s: %w", r.UID, err)
		}
	}
	w.mu.Lock()
	st.version = "" // end forgets the state
	w.mu.Unlock()
	return true, nil
}
