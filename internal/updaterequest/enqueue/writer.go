package enqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Observer counts events of a Writer; nil for none.
type Observer interface {
	// UpdateRequests is called with the number of existing UpdateRequests after each count.
	UpdateRequests(n int)
	// UpdateRequestFailed is called for each UpdateRequest that was not written before the request was answered. waiting is the number of
	// waiting UpdateRequests.
	UpdateRequestFailed(waiting int)
	// UpdateRequestsWaiting is called with the number of waiting UpdateRequests whenever it decreases.
	UpdateRequestsWaiting(n int)
}

// Options are the limits and names of a Writer.
type Options struct {
	API updaterequest.API
	// Namespace is the namespace in which UpdateRequests are written.
	Namespace string
	// Threshold returns the maximum number of UpdateRequests; 0 or less means no limit.
	Threshold func() int
	// Wake makes the row of the Writer call Reconcile, and must not block; nil for nothing.
	Wake func()
	// Events report work that was not written in time; nil for none.
	Events   event.Recorder
	Observer Observer
	Log      *slog.Logger
	Now      func() time.Time
}

const (
	// writeTime limits the write before a request is answered, even if the request has more time left.
	writeTime = 3 * time.Second
	// maxWaiting is the maximum number of waiting UpdateRequests, maxWaitingBytes their maximum size.
	maxWaiting      = 10_000
	maxWaitingBytes = 64 << 20
	// countFor is how long a count of UpdateRequests is used.
	countFor = time.Second
	// fullFor replaces countFor while the threshold is reached.
	fullFor = countFor / 10
	// recountEvery is the pause between two counts for the metric while nothing is written.
	recountEvery = 30 * time.Second
	// shutdownTime is the time for the last writes when the process stops.
	shutdownTime = 5 * time.Second
	// maxDenied is the number of failures that concern one UpdateRequest each after which a flush ends.
	maxDenied = 16
)

// ofOne reports whether a failure concerns one UpdateRequest, such as a denial by a webhook or a ValidatingAdmissionPolicy of the cluster, so that
// others may succeed.
func ofOne(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// refused reports whether a retry cannot succeed because the API server rejects the object.
func refused(err error) bool {
	return invalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// invalid reports whether fields of the object are invalid. A ValidatingAdmissionPolicy denies with the same reason, and names no field.
func invalid(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field != "" })
}

// Writer writes UpdateRequests. Its methods are safe for concurrent use.
type Writer struct {
	Options
	writes lock.Keyed // by name, one at a time
	// failures counts the failures since nothing was waiting.
	failures atomic.Uint64

	mu      sync.Mutex
	waiting map[string]*waiting
	bytes   int
	tried   string // the last name that a flush tried without success
	known   count
}

// waiting is an UpdateRequest that could not be written yet.
type waiting struct {
	plan
	bytes int
}

// count is the last counted number of UpdateRequests, plus those added since.
type count struct {
	n  int
	at time.Time
}

// New returns a Writer. Its method Reconcile retries failed writes.
func New(o Options) *Writer {
	if o.Events == nil {
		o.Events = event.Discard
	}
	return &Writer{Options: o, waiting: map[string]*waiting{}}
}

// Write writes the work of a request before the request is answered. It returns soon after ctx is done. Work that is not written by then
// waits, and the returned warnings report it.
func (w *Writer) Write(ctx context.Context, req *policy.Request, work []policy.Work) (warnings []string) {
	roles, err := rolesFor(ctx, req, work)
	var todo []plan
	if err == nil {
		todo, err = plans(req, work, w.Namespace, roles)
	}
	if err != nil {
		// Without the roles or the object the work could not be executed as intended.
		w.Log.Error("work could not be stored", "uid", req.UID, "error", err)
		for i := range work {
			w.record(work[i].Program, event.Reference{}, "its work is lost: "+err.Error())
		}
		return []string{"the work that policies request is lost: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	errs := make([]error, len(todo))
	var running sync.WaitGroup
	for i := 1; i < len(todo); i++ {
		running.Go(func() { errs[i] = w.writeOrWait(ctx, todo[i]) })
	}
	if len(todo) > 0 {
		errs[0] = w.writeOrWait(ctx, todo[0])
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("policy %s: %s", todo[i].program.Key(), err))
		}
	}
	return warnings
}

// rolesFor resolves the requester's roles if a rule with work needs them.
func rolesFor(ctx context.Context, req *policy.Request, work []policy.Work) (policy.Roles, error) {
	if slices.ContainsFunc(work, func(x policy.Work) bool { return x.Rule.Needs.Roles }) {
		return req.Roles(ctx)
	}
	return policy.Roles{}, nil
}

// writeOrWait writes one UpdateRequest, or adds it to the waiting ones. The returned error is for the requester.
func (w *Writer) writeOrWait(ctx context.Context, p plan) error {
	name := p.object.Name
	var earlier *plan
	unlock, err := w.lock(ctx, name)
	for err == nil {
		waits := w.waitsFor(p.object.Name)
		if waits == nil || mergeable(p.program, &waits.Spec, &p.object.Spec) {
			break
		}
		unlock()
		p.object = apart(name, p.object)
		unlock, err = w.lock(ctx, p.object.Name)
	}
	if err == nil {
		defer unlock()
		if earlier = w.takeWaiting(p.object.Name); earlier != nil {
			join(earlier.object, p.object)
		}
		err = w.write(ctx, p)
	} else {
		p.object = alone(p.object) // another write decides what becomes of the name
	}
	if err == nil {
		if w.Observer != nil && w.Waiting() == 0 {
			w.Observer.UpdateRequestsWaiting(0)
		}
		return nil
	}
	final := refused(err)
	if final && earlier != nil {
		w.putBack(*earlier) // what the API server refuses may be of this request
	}
	kept := !final && w.putBack(p)
	if n := w.failures.Add(1); n&(n-1) == 0 || !kept { // log only the 1st, 2nd, 4th, 8th … failure
		w.Log.Error("UpdateRequests could not be written before the request was answered", "failures", n, "policy", p.program.Key(), "name", p.object.Name, "waits", kept, "error", err)
	}
	if w.Observer != nil {
		w.Observer.UpdateRequestFailed(w.Waiting())
	}
	text := "its work is delayed: "
	switch {
	case final:
		text = "its work is lost: "
	case !kept:
		text = "its work is lost, since too many UpdateRequests are waiting: "
	}
	text += err.Error()
	w.record(p.program, updaterequest.Reference(p.object.Spec.Resource), text)
	return errors.New(text)
}

// lock waits until no other goroutine writes the name, as long as ctx allows.
func (w *Writer) lock(ctx context.Context, name string) (unlock func(), err error) {
	unlock, err = w.writes.Lock(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("wait for an earlier write of UpdateRequest %s: %w", name, err)
	}
	return unlock, nil
}

// write creates the UpdateRequest, or updates the existing one with the new work.
func (w *Writer) write(ctx context.Context, p plan) error {
	u, full := p.object, w.full(ctx)
	var err error
	for range updaterequest.Attempts {
		if full == nil {
			if err = w.API.Create(ctx, u); err == nil {
				w.added()
				return nil
			}
			if !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("write UpdateRequest %s: %w", u.Name, err)
			}
		}
		there, getErr := w.API.Get(ctx, u.Namespace, u.Name)
		switch {
		case apierrors.IsNotFound(getErr) && full != nil:
			return full
		case apierrors.IsNotFound(getErr):
			continue // the worker executed and removed it meanwhile
		case getErr != nil:
			return fmt.Errorf("read UpdateRequest %s: %w", u.Name, getErr)
		}
		if !mergeable(p.program, &there.Spec, &u.Spec) {
			u = apart(p.object.Name, u)
			continue
		}
		next := there.DeepCopy()
		next.Labels, next.Spec = u.Labels, *u.Spec.DeepCopy()
		updaterequest.ReplaceNotes(next, u)
		join(there, next)
		if err = w.API.Update(ctx, next); err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("update UpdateRequest %s: %w", u.Name, err)
		}
	}
	return fmt.Errorf("write UpdateRequest %s: %w", u.Name, err)
}

// apart returns the UpdateRequest under another name, beside an earlier one that it may not replace: the earlier rules need the request that
// they matched, and the later rules need the later one. First it may share the name with others of the operation.
func apart(first string, u *kyvernov2.UpdateRequest) *kyvernov2.UpdateRequest {
	if u.Name != first {
		return alone(u)
	}
	u = u.DeepCopy()
	u.Name = updaterequest.Name(u.Name, string(u.Spec.Context.AdmissionRequestInfo.Operation))
	return u
}

// alone returns the UpdateRequest under a name that no other request has.
func alone(u *kyvernov2.UpdateRequest) *kyvernov2.UpdateRequest {
	u = u.DeepCopy()
	u.Name = updaterequest.Name(u.Name, string(u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.UID))
	return u
}

// mergeable reports whether the later work of a policy may replace the earlier one: both belong to the same operation, or the later work includes
// all rules of the earlier one. A rule that reads of the request what another one does not have is executed for each, until the trigger is deleted.
func mergeable(p *policy.Program, earlier, later *kyvernov2.UpdateRequestSpec) bool {
	before, now := &earlier.Context.AdmissionRequestInfo, &later.Context.AdmissionRequestInfo
	if before.AdmissionRequest != nil && before.AdmissionRequest.UID == now.AdmissionRequest.UID {
		return true
	}
	same := before.Operation == now.Operation
	for _, r := range earlier.RuleContext {
		if now.Operation != admissionv1.Delete && readsRequest(p, r.Rule, same) {
			return false
		}
		if !same && !slices.ContainsFunc(later.RuleContext, func(x kyvernov2.RuleContext) bool { return x.Rule == r.Rule }) {
			return false
		}
	}
	return true
}

// readsRequest reports whether a rule reads the requester, the old object or, where it is not the same, the operation.
func readsRequest(p *policy.Program, rule string, sameOperation bool) bool {
	return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool {
		return r.Name == rule && (r.AsksRequester() || r.Needs.OldObject || r.Needs.Operation && !sameOperation)
	})
}

// join adds the rules of the earlier work that the later work does not include.
func join(earlier, later *kyvernov2.UpdateRequest) {
	var added []kyvernov2.RuleContext
	for _, r := range earlier.Spec.RuleContext {
		if !slices.ContainsFunc(later.Spec.RuleContext, func(x kyvernov2.RuleContext) bool { return x.Rule == r.Rule }) {
			addRule(&later.Spec, r)
			added = append(added, r)
		}
	}
	updaterequest.KeepHeld(earlier, later, added)
}

// full returns an error if no UpdateRequest may be added. If the count fails, it returns nil, and the write will show whether the API
// server answers.
func (w *Writer) full(ctx context.Context) error {
	limit := w.Threshold()
	if limit <= 0 {
		return nil
	}
	w.mu.Lock()
	known := w.known
	w.mu.Unlock()
	goodFor := countFor
	if known.n >= limit {
		goodFor = fullFor // some of them may already be executed
	}
	if w.Now().Sub(known.at) >= goodFor {
		var err error
		if known.n, err = w.count(ctx); err != nil {
			w.Log.Warn("UpdateRequests could not be counted", "error", err)
			return nil
		}
	}
	if known.n >= limit {
		return updaterequest.ThresholdError{Limit: limit}
	}
	return nil
}

// count counts the existing UpdateRequests.
func (w *Writer) count(ctx context.Context) (int, error) {
	now := w.Now()
	n, err := w.API.Count(ctx, w.Namespace)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.known = count{n: n, at: now}
	w.mu.Unlock()
	if w.Observer != nil {
		w.Observer.UpdateRequests(n)
	}
	return n, nil
}

// recount counts again while there are UpdateRequests, because background controllers remove them.
func (w *Writer) recount(ctx context.Context) {
	w.mu.Lock()
	known := w.known
	w.mu.Unlock()
	if known.n == 0 && !known.at.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if _, err := w.count(ctx); err != nil {
		w.Log.Debug("UpdateRequests could not be counted", "error", err)
	}
}

func (w *Writer) added() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known.n++
}

// record writes an event about the work of a policy.
func (w *Writer) record(p *policy.Program, trigger event.Reference, text string) {
	controller := event.GenerateController
	if slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Stage.Has(policy.StageMutateExisting) }) {
		controller = event.MutateController
	}
	w.Events.Record(event.Event{
		Regarding: event.PolicyReference(p), Related: trigger, Reason: event.PolicyError, Action: event.None,
		Note: strings.TrimSpace(fmt.Sprintf("policy %s error: %s", p.Key(), text)), Controller: controller,
	})
}
