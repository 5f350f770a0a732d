package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// Watcher watches the objects of synchronized rules and the sources of their copies, for rules that have no webhooks for
// these objects (Generation.Watched). It creates an UpdateRequest for each change. One replica at a time runs it.
type Watcher struct {
	Follower *Follower
	// Watch returns the source that follows the metadata of a resource.
	Watch func(schema.GroupVersionResource, controller.Sink[*metav1.PartialObjectMetadata]) controller.Source
	// Wake makes the row of the Watcher call Once again.
	Wake func()
	Log  *slog.Logger
	// Watches are the sources that run.
	Watches controller.Group[schema.GroupVersionResource]

	mu      sync.Mutex
	watched map[schema.GroupVersionResource]controller.Source
	kinds   map[schema.GroupVersionResource]schema.GroupVersionKind
	pending map[change]pending
	since   time.Time // of the first pending change
	// last holds the time at which work was last written for a change, so that two writers that overwrite each other's changes do not use all
	// the capacity.
	last map[change]time.Time
	// early are objects that are not in the record, by UID: another replica may have generated or copied them a moment ago.
	early map[string]early
	// delayed are the rules whose changes wait for the threshold. Only Once uses it.
	delayed map[origin.Rule]bool
}

// early is the observed state of an object that is not in the record yet.
type early struct {
	pending
	at time.Time
}

// watched is one watched resource.
type watched struct {
	gvk schema.GroupVersionKind
	// before are the UIDs that were in the record at the start of the current list, and seen are those that it has found; nil between lists.
	before, seen map[string]bool
	// failing is set from a failure until the next complete list.
	failing bool
}

// change identifies an observed object and its work: for a rule and a trigger, or for all copies that a rule made from a source.
type change struct {
	rule    origin.Rule
	trigger mark.Object
	source  mark.Object
	uid     string
}

// pending is the observed state of an object.
type pending struct {
	version string // empty for a deleted object
	gone    bool
}

const (
	// quiet is how long changes are collected before work is written.
	quiet = 200 * time.Millisecond
	// retryKinds is the pause before the resources of kinds are looked up again, after that failed.
	retryKinds = 30 * time.Second
	// sameAgain is the minimum time between two UpdateRequests for the same change.
	sameAgain = time.Second
	// earlyFor is how long an object that is not in the record is remembered, and maxEarly the number of such objects. Other replicas store what
	// they generate after a second.
	earlyFor, maxEarly = time.Minute, 10_000
)

// Once starts and stops watches, and writes the work for observed changes.
func (w *Watcher) Once(ctx context.Context) (again time.Duration, err error) {
	defer w.observe(ctx)
	if w.reconcile() {
		again = retryKinds
	}
	w.recorded()
	w.mu.Lock()
	waits := len(w.pending) > 0
	early := w.since.Add(quiet).Sub(w.Follower.Now())
	w.mu.Unlock()
	switch {
	case !waits:
		return again, nil
	case early > 0:
		return early, nil
	}
	next, err := w.flush(ctx)
	if next > 0 {
		again = next
	}
	return again, err
}

// observe reports how many rules have changes that wait for the threshold.
func (w *Watcher) observe(ctx context.Context) {
	maps.DeleteFunc(w.delayed, func(r origin.Rule, _ bool) bool { _, rule := w.rule(r); return rule == nil })
	w.Follower.observe(ctx, ofChanges, len(w.delayed))
}

// rule returns the rule of an entry if its objects are watched, and nil otherwise.
func (w *Watcher) rule(r origin.Rule) (*policy.Program, *policy.Rule) {
	p, rule := updaterequest.FindRule(w.Follower.Snapshot(), r.ID, r.Name)
	if rule == nil || rule.Generation == nil || !rule.Generation.Watched || !rule.Generation.Synchronize {
		return nil, nil
	}
	return p, rule
}

// reconcile starts the necessary watches and stops the others, and reports whether the resource of a kind could not be found. Its watch goes
// on if there is one.
func (w *Watcher) reconcile() (unknown bool) {
	f := w.Follower
	want := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	lost := map[schema.GroupVersionKind]bool{}
	for _, r := range f.Made.Record.Rules() {
		if _, rule := w.rule(r); rule == nil {
			continue
		}
		for _, gvk := range append(f.Made.Record.Kinds(r), f.Made.Record.Sources(r)...) {
			if m, err := f.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
				want[m.Resource] = gvk
			} else {
				lost[gvk] = true
			}
		}
	}
	w.mu.Lock()
	if w.watched == nil {
		w.watched, w.pending, w.last = map[schema.GroupVersionResource]controller.Source{}, map[change]pending{}, map[change]time.Time{}
		w.kinds, w.early = map[schema.GroupVersionResource]schema.GroupVersionKind{}, map[string]early{}
	}
	for gvr, gvk := range w.kinds {
		if _, wanted := want[gvr]; !wanted && !lost[gvk] {
			delete(w.watched, gvr)
			delete(w.kinds, gvr)
		}
	}
	for gvr, gvk := range want {
		if w.watched[gvr] == nil {
			w.watched[gvr], w.kinds[gvr] = w.Watch(gvr, w.sink(gvr, gvk)), gvk
		}
	}
	watches := maps.Clone(w.watched)
	w.mu.Unlock()
	w.Watches.Set(watches)
	return len(lost) > 0
}

// sink returns the sink of one resource.
func (w *Watcher) sink(gvr schema.GroupVersionResource, gvk schema.GroupVersionKind) controller.Sink[*metav1.PartialObjectMetadata] {
	x := &watched{gvk: gvk}
	return controller.Sink[*metav1.PartialObjectMetadata]{
		Begin: func() { w.begin(x) }, Listed: func(string) error { w.listed(x); return nil },
		Seen:   func(o *metav1.PartialObjectMetadata) error { w.see(x, string(o.UID), o.ResourceVersion); return nil },
		Gone:   func(o *metav1.PartialObjectMetadata) { w.lose(string(o.UID)) },
		Failed: func(err error, pause time.Duration) { w.failed(gvr, x, err, pause) },
	}
}

// failed reports that a resource cannot be watched. It reports this once until a list succeeds.
func (w *Watcher) failed(gvr schema.GroupVersionResource, x *watched, err error, pause time.Duration) {
	w.mu.Lock()
	known := x.failing
	x.failing = true
	w.mu.Unlock()
	if known {
		return
	}
	w.Log.Warn("generated objects or sources of copies are not watched: changes are undone when their rule is followed again", "resource", gvr.String(), "again", pause, "error", err)
	if apierrors.IsForbidden(err) {
		w.report(x.gvk, err)
	}
}

// report records events about rules whose objects the controller is not allowed to watch.
func (w *Watcher) report(gvk schema.GroupVersionKind, err error) {
	f := w.Follower
	for _, r := range f.Made.Record.Rules() {
		p, rule := w.rule(r)
		if rule == nil {
			continue
		}
		for _, k := range append(f.Made.Record.Kinds(r), f.Made.Record.Sources(r)...) {
			if k == gvk {
				f.Events.Record(event.Event{
					Regarding: event.PolicyReference(p), Reason: event.PolicyError, Action: event.None, Controller: updaterequest.Controller(rule),
					Note: fmt.Sprintf("policy %s/%s error: changes of %s are not noticed: %v", p.Key(), rule.Name, gvk.Kind, err),
				})
				break
			}
		}
	}
}

// see handles the observed version of an existing object.
func (w *Watcher) see(x *watched, uid, version string) {
	l := w.Follower.Made.Record
	e, made := l.Object(uid)
	copies := l.OfSource(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !made && len(copies) == 0 {
		w.remember(uid, pending{version: version})
		return
	}
	if x.seen != nil {
		x.seen[uid] = true
	}
	if made && e.Version != "" && e.Version != version {
		w.wait(change{rule: e.Rule(), trigger: e.Trigger, uid: uid}, pending{version: version})
	}
	for _, c := range copies {
		if c.FromVersion != "" && c.FromVersion != version {
			w.wait(change{rule: c.Rule(), source: c.From, uid: uid}, pending{version: version})
		}
	}
}

// lose handles a deleted object.
func (w *Watcher) lose(uid string) {
	l := w.Follower.Made.Record
	e, made := l.Object(uid)
	copies := l.OfSource(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !made && len(copies) == 0 {
		w.remember(uid, pending{gone: true})
	}
	if made {
		w.wait(change{rule: e.Rule(), trigger: e.Trigger, uid: uid}, pending{gone: true})
	}
	for _, c := range copies {
		w.wait(change{rule: c.Rule(), source: c.From, uid: uid}, pending{gone: true})
	}
}

// remember remembers the state of an object that is not in the record. The caller holds the lock.
func (w *Watcher) remember(uid string, as pending) {
	if _, known := w.early[uid]; known || len(w.early) < maxEarly {
		w.early[uid] = early{as, w.Follower.Now()}
	}
}

// recorded handles the remembered objects that are in the record now.
func (w *Watcher) recorded() {
	l, now := w.Follower.Made.Record, w.Follower.Now()
	w.mu.Lock()
	found := map[string]early{}
	for uid, e := range w.early {
		if _, made := l.Object(uid); made || len(l.OfSource(uid)) > 0 {
			found[uid] = e
			delete(w.early, uid)
		} else if now.Sub(e.at) > earlyFor {
			delete(w.early, uid)
		}
	}
	w.mu.Unlock()
	for uid, e := range found {
		if e.gone {
			w.lose(uid)
		} else {
			w.see(&watched{}, uid, e.version)
		}
	}
}

// begin notes which objects are in the record before a list. An object that is recorded during the list may be created after the list.
func (w *Watcher) begin(x *watched) {
	l := w.Follower.Made.Record
	before := map[string]bool{}
	add := func(o mark.Object) {
		if o.UID != "" && schema.FromAPIVersionAndKind(o.APIVersion, o.Kind) == x.gvk {
			before[o.UID] = true
		}
	}
	for _, r := range l.Rules() {
		if _, rule := w.rule(r); rule == nil {
			continue
		}
		for _, e := range l.OfRule(r) {
			add(e.Object)
			add(e.From)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	x.before, x.seen = before, map[string]bool{}
}

// listed handles the end of a list: objects that were not in the list are deleted.
func (w *Watcher) listed(x *watched) {
	w.mu.Lock()
	before, seen := x.before, x.seen
	x.before, x.seen, x.failing = nil, nil, false
	w.mu.Unlock()
	for uid := range before {
		if !seen[uid] {
			w.lose(uid)
		}
	}
}

// wait queues a change.
func (w *Watcher) wait(c change, why pending) {
	if len(w.pending) == 0 {
		w.since = w.Follower.Now()
	}
	w.pending[c] = why
	w.Wake()
}

// flush writes the UpdateRequests for queued changes. It returns when to call it again for changes that have to wait.
func (w *Watcher) flush(ctx context.Context) (again time.Duration, err error) {
	f := w.Follower
	now := f.Now()
	todo := map[origin.Rule][]change{}
	w.mu.Lock()
	for c, at := range w.last {
		if now.Sub(at) > time.Minute {
			delete(w.last, c)
		}
	}
	why := map[change]pending{}
	for c, p := range w.pending {
		if wait := w.last[c].Add(sameAgain).Sub(now); wait > 0 {
			again = max(again, wait)
			continue
		}
		delete(w.pending, c)
		if w.current(c, p) {
			continue // we wrote this version ourselves
		}
		todo[c.rule], why[c] = append(todo[c.rule], c), p
		w.last[c] = now
	}
	w.mu.Unlock()
	var errs []error
	for r, changes := range todo {
		p, rule := w.rule(r)
		if rule == nil {
			continue
		}
		left, err := w.write(ctx, p, rule, changes, why)
		switch {
		case errors.Is(err, errWaits):
			again = max(again, sameAgain)
		case err != nil:
			errs = append(errs, fmt.Errorf("policy %s: %w", p.Key(), err))
		}
		w.mu.Lock()
		for _, c := range left {
			if _, newer := w.pending[c]; !newer {
				w.pending[c] = why[c]
			}
		}
		w.mu.Unlock()
	}
	return again, errors.Join(errs...)
}

// current reports whether the record already contains the observed version.
func (w *Watcher) current(c change, p pending) bool {
	l := w.Follower.Made.Record
	if p.gone {
		return false
	}
	if c.source == (mark.Object{}) {
		e, ok := l.Object(c.uid)
		return !ok || e.Version == p.version
	}
	for _, e := range l.OfSource(c.uid) {
		if e.Rule() == c.rule && e.FromVersion != p.version {
			return false
		}
	}
	return true
}

// write writes the UpdateRequests of one rule. It returns the changes that have none yet.
func (w *Watcher) write(ctx context.Context, p *policy.Program, r *policy.Rule, changes []change, why map[change]pending) (left []change, err error) {
	f := w.Follower
	of := origin.RuleOf(p, r)
	b := &batches{f: f, program: p, rule: r, why: "changed " + strconv.FormatInt(f.Now().UnixNano(), 36), delayed: w.delayed[of]}
	defer func() {
		switch {
		case !b.delayed:
			delete(w.delayed, of)
		case w.delayed == nil:
			w.delayed = map[origin.Rule]bool{of: true}
		default:
			w.delayed[of] = true
		}
	}()
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.source.UID, b.source.UID) }) // those of generated objects first
	for len(changes) > 0 {
		some := changes[:1]
		if source := changes[0].source; source != (mark.Object{}) {
			if err := b.room(ctx); err != nil {
				return changes, err
			}
			u := updaterequest.NewForSource(f.Namespace, p, r, updaterequest.SpecIn(source), why[changes[0]].gone, r.Name, source.UID, b.why)
			if err := f.Client.Create(ctx, u); err != nil && !apierrors.IsAlreadyExists(err) {
				return changes, fmt.Errorf("write UpdateRequest: %w", err)
			}
		} else {
			for n := range changes[:min(len(changes), updaterequest.Batch)] {
				if changes[n].source != (mark.Object{}) {
					break
				}
				some = changes[:n+1]
				if err := b.add(ctx, updaterequest.SpecIn(changes[n].trigger), ""); err != nil {
					return changes, err
				}
			}
			if err := b.flush(ctx, 1); err != nil {
				return changes, err
			}
		}
		for _, c := range some {
			if why[c].gone && c.source == (mark.Object{}) {
				f.Made.Record.Drop(c.uid) // only now, since the next leader finds the change by the record
			}
		}
		changes = changes[len(some):]
	}
	return nil, nil
}
