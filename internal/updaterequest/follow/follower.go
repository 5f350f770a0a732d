package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// Follower creates the work that changes of policies require: rules for existing objects get UpdateRequests for their triggers, and
// the objects of deleted rules are deleted. One replica at a time runs it.
type Follower struct {
	// Client must read without a cache.
	Client client.Client
	// Namespace is the namespace of UpdateRequests.
	Namespace string
	Snapshot  func() *catalog.Snapshot
	// Stored reads policies from the API server; nil if that is not possible.
	Stored updaterequest.Stored
	// Made are the generated objects.
	Made   *origin.Objects
	Rules  Rules
	Events event.Recorder
	Now    func() time.Time
	// Every is the pause between two rounds without events.
	Every time.Duration
	// Threshold returns the maximum number of UpdateRequests. A nil function, or 0 or less, means no limit.
	Threshold func() int
	Observer  FollowerObserver
	Log       *slog.Logger

	// settled is the snapshot of policies in the last call of settle.
	settled *catalog.Snapshot
	// handled holds the policies whose rules got UpdateRequests, with the time.
	handled map[catalog.ID]handled
	// unfinished holds the batches of rounds that failed, wait, or look for further triggers, and go on.
	unfinished map[round]*batches
	// again holds the rules whose objects were recently deleted, oldest first.
	again []origin.Definition

	mu sync.Mutex
	// seen is the snapshot of policies in the last call of See, and passed are the generate rules that it found deleted since the last round.
	seen   *catalog.Snapshot
	passed []origin.Definition
	// waiting are the numbers of rules whose UpdateRequests wait to be written, by ofRounds and ofChanges.
	waiting [2]int
}

// Rules evaluates rules for existing objects.
type Rules interface {
	// Applies reports whether the rule has work for an object.
	Applies(ctx context.Context, p *policy.Program, r *policy.Rule, u *unstructured.Unstructured) bool
	// Proofs returns a function that proves the origin of some of the objects, which have the labels of a rule but no mark.
	Proofs(objects []*unstructured.Unstructured) func(context.Context, *policy.Program, *policy.Rule, *unstructured.Unstructured) (e origin.Entry, ok bool, err error)
}

// FollowerObserver counts events of a Follower; nil for none.
type FollowerObserver interface {
	// UpdateRequests is called with the number of existing UpdateRequests after each count.
	UpdateRequests(n int)
	// RulesWaiting is called with the number of rules whose UpdateRequests wait to be written. It counts until ctx is done.
	RulesWaiting(ctx context.Context, n int)
}

type handled struct {
	uid        string
	generation int64
	at         time.Time
	kinds      map[schema.GroupKind]bool // of existing triggers, as far as they are served
	looks      int                       // how often existing triggers were looked for again
}

// lookAgain are the times after a round for existing triggers at which it looks for those that were created or changed meanwhile: the API
// server asks about them only once the webhook configurations hold the rule, which takes longer while the API server is in trouble. The other
// triggers are not evaluated again, and get no work.
var lookAgain = []time.Duration{15 * time.Second, 3 * time.Minute}

// next returns when the policy has work again.
func (h *handled) next(every time.Duration) time.Time {
	if h.looks < len(lookAgain) {
		every = min(every, lookAgain[h.looks])
	}
	return h.at.Add(every)
}

// Once handles the changes since the last call, and returns when to call it again without events.
func (f *Follower) Once(ctx context.Context) (time.Duration, error) {
	defer f.observeRounds(ctx)
	waits, err := f.settle(ctx)
	s, now := f.Snapshot(), f.Now()
	if f.handled == nil {
		f.handled = map[catalog.ID]handled{}
	}
	maps.DeleteFunc(f.handled, func(id catalog.ID, _ handled) bool { return s.Get(id) == nil })
	maps.DeleteFunc(f.unfinished, func(x round, _ *batches) bool {
		p := s.Get(x.id)
		return p == nil || p.UID != x.uid || p.Generation != x.generation || p.AuditsFirst
	})
	next := f.Every
	for _, p := range s.Programs() {
		id := catalog.IDOf(p)
		if !slices.ContainsFunc(p.Rules, followed) {
			delete(f.handled, id) // a policy that audits first is handled again once it is released
			continue
		}
		last, known := f.handled[id]
		kinds, unknown := f.kinds(p)
		if unknown {
			next = min(next, retryKinds)
		}
		this := handled{uid: p.UID, generation: p.Generation, at: now, kinds: kinds}
		same := known && last.uid == p.UID && last.generation == p.Generation && !last.lacks(kinds)
		if same || len(kinds) == 0 {
			this.looks = len(lookAgain) // the webhooks already ask about the rule, or there is nothing to look for
		}
		again := false
		if same && now.Sub(last.at) < f.Every {
			if due := last.next(f.Every); now.Before(due) {
				last.kinds = kinds
				f.handled[id] = last
				next = min(next, due.Sub(now))
				continue
			}
			again, this.at, this.looks = true, last.at, last.looks
			for this.looks < len(lookAgain) && now.Sub(this.at) >= lookAgain[this.looks] {
				this.looks++
			}
		}
		switch failed := f.policy(ctx, p, again); {
		case errors.Is(failed, errSuperseded):
			return 0, err // the change has already triggered the next call
		case failed == errWaits:
			waits = true
			continue
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("policy %s: %w", p.Key(), failed))
			continue
		}
		f.handled[id] = this
		next = min(next, this.next(f.Every).Sub(now))
		if this.looks >= len(lookAgain) {
			maps.DeleteFunc(f.unfinished, func(x round, _ *batches) bool { return x.id == id && x.why == existing })
		}
	}
	if waits {
		next = recountPause
	}
	if soon := f.nextCheck(); soon > 0 && (next <= 0 || soon < next) {
		next = soon
	}
	return next, err
}

// kinds returns the kinds of existing triggers of generate rules, as far as they are served. A kind may be defined after its policy, and its
// first objects may be created before the webhooks are about it. unknown: some kinds could not be looked up.
func (f *Follower) kinds(p *policy.Program) (out map[schema.GroupKind]bool, unknown bool) {
	out = map[schema.GroupKind]bool{}
	for _, r := range p.Rules {
		if r.Generation == nil || !r.Generation.Existing || r.WithoutTrigger || r.AsksRequester() {
			continue
		}
		for _, t := range r.Targets {
			if t.Subresource != "" {
				continue
			}
			found, err := f.Made.Find(t)
			for _, gvk := range found {
				out[gvk.GroupKind()] = true
			}
			unknown = unknown || err != nil
		}
	}
	return out, unknown
}

// lacks reports whether there are kinds that the last round did not find.
func (h *handled) lacks(kinds map[schema.GroupKind]bool) bool {
	for k := range kinds {
		if !h.kinds[k] {
			return true
		}
	}
	return false
}

// followed reports whether the rule needs work when its policy changes.
func followed(r *policy.Rule) bool {
	return r.OnPolicyChange || r.Generation != nil && (r.Generation.Existing || r.Generation.Synchronize)
}

// policy writes the UpdateRequests for the rules of a policy that is new, changed, or due. again: only for the existing triggers of generate
// rules that the round has not seen, or that have changed since.
func (f *Follower) policy(ctx context.Context, p *policy.Program, again bool) error {
	var errs []error // joined, so that errors.Is finds errSuperseded
	waits := false
	for _, r := range p.Rules {
		if !followed(r) || again && (r.Generation == nil || !r.Generation.Existing) {
			continue
		}
		b := f.begin(p, r, existing, again)
		err := f.triggers(ctx, p, r, b)
		if !errors.Is(err, errSuperseded) {
			if failed := b.flush(ctx, 1); err == nil {
				err = failed
			}
		}
		switch {
		case errors.Is(err, errWaits):
			waits = true
		case err != nil:
			errs = append(errs, fmt.Errorf("rule %s: %w", r.Name, err))
		}
	}
	switch {
	case len(errs) > 0:
		return errors.Join(errs...)
	case waits:
		return errWaits
	}
	for x, b := range f.unfinished {
		if x.id == catalog.IDOf(p) && x.why == existing {
			b.done = true
		}
	}
	return nil
}

// triggers finds the triggers of a rule, unless an earlier call has found all of them.
func (f *Follower) triggers(ctx context.Context, p *policy.Program, r *policy.Rule, b *batches) (err error) {
	if b.complete {
		return nil
	}
	if r.OnPolicyChange || r.Generation != nil && r.Generation.Existing {
		switch {
		case r.AsksRequester():
			f.leaveToRequests(p, r)
		case r.WithoutTrigger:
			err = b.add(ctx, kyvernov2.ResourceSpec{}, "")
		default:
			err = f.existing(ctx, p, r, b)
		}
	}
	if err == nil && r.Generation != nil && r.Generation.Synchronize {
		var made []origin.Object
		made, err = f.marked(ctx, p, r)
		for _, t := range origin.Triggers(made) {
			if err == nil && !origin.CopiesAll(r) {
				err = b.add(ctx, t, "")
			}
		}
	}
	b.complete = err == nil
	return err
}

// leaveToRequests reports that a rule depends on the requester, and is not executed for existing objects because these have no requester.
func (f *Follower) leaveToRequests(p *policy.Program, r *policy.Rule) {
	f.Log.Warn("a rule that depends on the requester is not executed for existing objects", "policy", p.Key(), "rule", r.Name)
	f.Events.Record(event.Event{
		Regarding: event.PolicyReference(p), Reason: event.PolicyError, Action: event.None, Controller: updaterequest.Controller(r),
		Note: fmt.Sprintf("policy %s/%s error: the rule is not executed for existing objects: it depends on the requester (subjects, roles, clusterRoles or request.userInfo)", p.Key(), r.Name),
	})
}

// marked returns the objects that a rule generated. It renews marks with older keys, and adopts unmarked objects whose labels are proved.
// It leaves objects without proof unchanged and reports them.
func (f *Follower) marked(ctx context.Context, p *policy.Program, r *policy.Rule) ([]origin.Object, error) {
	all, err := f.Made.Of(ctx, p, r, origin.Which{})
	if err != nil {
		return nil, err
	}
	f.Made.NoteProved(r, all.Proved)
	ring, err := f.Made.Keyring(ctx, false)
	if err != nil {
		return nil, err
	}
	// A failure for one object does not stop the work for the others, and the next round retries it: labels may name a kind that does not
	// exist.
	failed := func(u *unstructured.Unstructured, err error) {
		if ctx.Err() == nil {
			f.Log.Warn("an object was not marked, will retry", "policy", p.Key(), "rule", r.Name, "object", updaterequest.ObjectText(u), "error", err)
		}
	}
	superseded := func() bool { return f.Snapshot() != f.settled } // the loop may take long, and first the next call deletes objects
	for _, m := range all.Proved {
		if mark.IsCurrent(ring, m.GetAnnotations()[mark.Annotation]) {
			continue
		}
		if superseded() {
			return nil, errSuperseded
		}
		if err := f.Made.Remark(ctx, m); err != nil {
			failed(m.Unstructured, err)
		}
	}
	prove, adopted := f.Rules.Proofs(all.Unproved), 0
	var left []*unstructured.Unstructured
	for _, u := range all.Unproved {
		if u.GetDeletionTimestamp() != nil {
			continue
		}
		if superseded() {
			return nil, errSuperseded
		}
		entry, ok, err := prove(ctx, p, r, u)
		if ok {
			err = f.Made.Adopt(ctx, u, entry)
		}
		if err != nil {
			failed(u, err)
		}
		if ok && err == nil {
			adopted++
		} else {
			left = append(left, u)
		}
	}
	f.Made.ReportUnproved(p, r, left...)
	if adopted > 0 {
		f.Log.Info("marked objects that a rule had generated", "policy", p.Key(), "rule", r.Name, "objects", adopted)
	}
	return all.Proved, ctx.Err()
}

// existing finds the triggers of a rule among all existing objects. A kind that cannot be listed does not keep those of other kinds from their work.
func (f *Follower) existing(ctx context.Context, p *policy.Program, r *policy.Rule, b *batches) error {
	seen := map[schema.GroupKind]bool{}
	var errs []error
	// An object that the rule generated is not a trigger of the rule; otherwise each round would generate more objects.
	labelled := labels.SelectorFromSet(origin.LabelsOfRule(p, r.Name))
	own := func(u *unstructured.Unstructured) (bool, error) {
		if !labelled.Matches(labels.Set(u.GetLabels())) {
			return false, nil
		}
		if origin.Fits(r, u) {
			return true, nil
		}
		c, ok, err := f.Made.Claim(ctx, u)
		return ok && origin.IsOf(c, p.Identity(), r.Name), err
	}
	for _, target := range r.Targets {
		if target.Subresource != "" {
			continue
		}
		kinds, err := f.Made.Find(target)
		errs = append(errs, err)
		for _, gvk := range kinds {
			if gk := gvk.GroupKind(); seen[gk] || b.listed[gk] {
				continue
			}
			seen[gvk.GroupKind()] = true
			var failed error
			err := updaterequest.Each(ctx, f.Client, updaterequest.ListOf(gvk), &client.ListOptions{Namespace: p.Namespace}, func(u *unstructured.Unstructured) bool {
				spec, version := updaterequest.SpecOf(u), u.GetResourceVersion()
				if u.GetDeletionTimestamp() != nil || b.has(spec, version) {
					return ctx.Err() == nil
				}
				var mine bool
				if mine, failed = own(u); failed == nil && !mine && f.Rules.Applies(ctx, p, r, u) {
					failed = b.add(ctx, spec, version)
				}
				return failed == nil && ctx.Err() == nil
			})
			switch {
			case failed != nil || ctx.Err() != nil:
				return errors.Join(err, failed, ctx.Err())
			case apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err): // a kind that cannot be listed has no stored objects
			case err != nil:
				errs = append(errs, err)
			default:
				b.listed[gvk.GroupKind()] = true
			}
		}
	}
	return errors.Join(errs...)
}
