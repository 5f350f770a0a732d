package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/listwatch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Share determines the keys for which this replica works. Two replicas may work for the same key if one of them was suspended for a
// while; therefore late and repeated writes must do no harm.
type Share interface {
	// Holds reports whether this replica may start work for the key now.
	Holds(key string) bool
	// Hold starts work for the key. ok is false if the replica may not start it. ctx is cancelled if the replica loses the key. The
	// caller calls release when the work is done.
	Hold(ctx context.Context, key string) (held context.Context, release func(), ok bool)
	// Lapsed reports whether the time of a Hold has expired.
	Lapsed(held context.Context) bool
	// Changed returns a channel that is closed when the set of held keys differs from the set at the time of the call.
	Changed() <-chan struct{}
}

// ours reports whether this replica is responsible for an UpdateRequest as a whole.
func (w *Worker) ours(u *kyvernov2.UpdateRequest) bool {
	return w.Share.Holds(cmp.Or(updaterequest.KeyOfRules(u), u.Name))
}

// elsewhereError means that the work belongs to another replica, or that this replica lost it before it was done.
type elsewhereError struct{ lapsed bool }

func (e elsewhereError) Error() string { return "another replica works for this key" }

// held calls do for a key that this replica holds.
func (w *Worker) held(ctx context.Context, key string, do func(context.Context) error) error {
	held, release, ok := w.Share.Hold(ctx, key)
	if !ok {
		return elsewhereError{}
	}
	defer release()
	err := do(held)
	if ctx.Err() == nil && w.Share.Lapsed(held) {
		return elsewhereError{lapsed: true}
	}
	return err
}

// look queues all UpdateRequests in which this replica may have a share.
func (w *Worker) look(ctx context.Context) error {
	options := &client.ListOptions{Namespace: w.Namespace, Limit: metadataPage}
	for {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kyvernov2.GroupVersion.WithKind("UpdateRequestList"))
		err := w.Client.List(ctx, page, options)
		if listwatch.GoesOn(err, &options.Continue) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			w.Add(page.Items[i].Name, updaterequest.KeyOf(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// divide removes the finished triggers from an UpdateRequest that this replica shares with others, and removes the UpdateRequest when no
// trigger is left. The other replicas notice this change or, if a replica ends, the change of the ring.
func (w *Worker) divide(ctx context.Context, u *kyvernov2.UpdateRequest, p *progress) (again time.Duration) {
	for range updaterequest.Attempts {
		left := slices.DeleteFunc(updaterequest.Rules(&u.Spec), func(r kyvernov2.RuleContext) bool { return p.done[r] })
		if len(left) == 0 {
			return w.finish(ctx, u)
		}
		if len(left) == len(updaterequest.Rules(&u.Spec)) {
			return 0
		}
		next := u.DeepCopy()
		next.Spec.RuleContext = left
		err := w.Client.Update(ctx, next)
		switch {
		case err == nil:
			return 0
		case apierrors.IsNotFound(err):
			w.forget(u.Name)
			return 0
		case !apierrors.IsConflict(err):
			w.Log.Warn("the executed part of an UpdateRequest could not be recorded", "name", u.Name, "error", err)
			w.Observer.Requeued(WorkerName, 1)
			return w.soon(u.Name, longestError)
		}
		if asked(u) {
			return w.soon(u.Name, longestLook) // another request may have requested the work again
		}
		fresh := &kyvernov2.UpdateRequest{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(u), fresh); err != nil || fresh.UID != u.UID {
			return w.soon(u.Name, longestLook)
		}
		u = fresh
	}
	return w.soon(u.Name, longestError)
}

// separable reports whether the rules that failed are only some of those in an UpdateRequest without a request, so that they can get an
// UpdateRequest of their own.
func (p *progress) separable(u *kyvernov2.UpdateRequest, failed error) bool {
	_, source := u.Labels[updaterequest.LabelSource]
	return !asked(u) && !source && len(p.failing) < len(updaterequest.Rules(&u.Spec)) && (!onlyConflicts(failed) || p.conflicts >= updaterequest.Attempts)
}

// separate moves the rules that failed to an UpdateRequest of their own, which has their status, and removes them and the executed ones from
// the UpdateRequest. Otherwise the executed rules would be executed again after a restart, and the rules of other replicas would not be
// executed any more after the last attempt.
func (w *Worker) separate(ctx context.Context, u *kyvernov2.UpdateRequest, p *progress, failed error) (again time.Duration) {
	next := w.NewWork(u.Spec.Policy, u.Spec.RequestType, cmp.Or(u.Labels[updaterequest.LabelGeneratePolicy], u.Labels[updaterequest.LabelMutatePolicy]), p.failing,
		u.Name, string(u.UID), "failed", NameOf(p.failing))
	if text := writtenText(u, p); text != "" {
		next.Annotations = map[string]string{writtenAnnotation: text}
	}
	if err := w.Client.Create(ctx, next); err != nil && !apierrors.IsAlreadyExists(err) {
		return w.failed(ctx, u, failed)
	}
	for _, r := range p.failing {
		p.done[r] = true
	}
	return w.divide(ctx, u, p)
}

// asked reports whether an admission request caused the work. Another request for the same work may follow.
func asked(u *kyvernov2.UpdateRequest) bool {
	return u.Spec.Context.AdmissionRequestInfo.AdmissionRequest != nil
}

// lookAgain requests another check of the triggers that were in progress when the replica lost the key, unless the work is still pending.
// A late create could follow the work of the new owner, and recreate an object whose trigger was deleted. Late updates and deletions fail,
// because they include the version that was read.
func (w *Worker) lookAgain(ctx context.Context, u *kyvernov2.UpdateRequest, lapsed []kyvernov2.RuleContext) {
	lapsed = slices.DeleteFunc(lapsed, func(r kyvernov2.RuleContext) bool { return r.DeleteDownstream })
	if updaterequest.Mutates(u.Spec.RequestType) || len(lapsed) == 0 {
		return
	}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(u), &kyvernov2.UpdateRequest{}); err == nil {
		return // the holder of the key does this
	}
	var there, away []kyvernov2.RuleContext
	for _, r := range lapsed {
		if _, err := w.NewReads([]kyvernov2.ResourceSpec{r.Trigger}).live(ctx, r.Trigger); asGone(err, &goneError{}) {
			away = append(away, r)
		} else {
			there = append(there, r)
		}
	}
	for why, rules := range map[string][]kyvernov2.RuleContext{"there": there, "gone": away} {
		if len(rules) == 0 {
			continue
		}
		next := w.NewWork(u.Spec.Policy, u.Spec.RequestType, u.Labels[updaterequest.LabelGeneratePolicy], rules, u.Name, string(u.UID), why, NameOf(rules))
		if why == "there" {
			next.Spec.Context = *u.Spec.Context.DeepCopy() // the triggers are evaluated with the same request
			updaterequest.KeepHeld(u, next, rules)
		}
		if err := w.Client.Create(ctx, next); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			w.Log.Warn("the work in progress when this replica lost its share could not be recorded", "name", u.Name, "error", err)
		}
	}
}

// NewWork returns an UpdateRequest for triggers without a request. The worker decides again what to delete.
func (w *Worker) NewWork(policyKey string, kind kyvernov2.RequestType, policyLabel string, rules []kyvernov2.RuleContext, name ...string) *kyvernov2.UpdateRequest {
	u := &kyvernov2.UpdateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: updaterequest.Name(append([]string{string(kind), policyKey}, name...)...),
			Labels: map[string]string{updaterequest.LabelGeneratePolicy: policyLabel},
		},
		Spec: kyvernov2.UpdateRequestSpec{RequestType: kind, Policy: policyKey, Rule: rules[0].Rule, Resource: rules[0].Trigger},
	}
	if updaterequest.Mutates(kind) {
		u.Labels = map[string]string{updaterequest.LabelMutatePolicy: policyLabel}
	}
	for _, r := range rules {
		u.Spec.RuleContext = append(u.Spec.RuleContext, kyvernov2.RuleContext{Rule: r.Rule, Trigger: r.Trigger, Synchronize: r.Synchronize})
	}
	if key := updaterequest.KeyOfRules(u); key != "" {
		u.Labels[updaterequest.LabelKey] = key
	}
	return u
}

// NameOf returns a part of a name for the rules, so that UpdateRequests of different rules or triggers have different names.
func NameOf(rules []kyvernov2.RuleContext) string {
	parts := make([]string, 0, 2*len(rules))
	for _, r := range rules {
		parts = append(parts, r.Rule, updaterequest.TriggerID(r.Trigger))
	}
	return updaterequest.Name(parts...)
}

// NewSourceWork returns an UpdateRequest for all copies that a rule made from a changed or deleted source.
func (w *Worker) NewSourceWork(p *policy.Program, r *policy.Rule, source kyvernov2.ResourceSpec, gone bool, name ...string) *kyvernov2.UpdateRequest {
	source = updaterequest.Canonical(source)
	u := w.NewWork(p.Key(), updaterequest.Type(p.Identity(), r), updaterequest.LabelValue(p.Name), []kyvernov2.RuleContext{{Rule: r.Name, Trigger: source}}, name...)
	u.Labels[updaterequest.LabelSource] = ""
	u.Spec.Rule, u.Spec.Resource = "", source
	u.Spec.RuleContext = []kyvernov2.RuleContext{{Rule: r.Name, Synchronize: true, DeleteDownstream: gone}}
	return u
}

// leave passes the triggers of a source to the replicas that hold them, as separate UpdateRequests.
func (w *Worker) leave(ctx context.Context, t *task, triggers []kyvernov2.ResourceSpec) error {
	var errs []error
	for len(triggers) > 0 {
		some := triggers[:min(len(triggers), updaterequest.Batch)]
		triggers = triggers[len(some):]
		rules := make([]kyvernov2.RuleContext, len(some))
		for i, trigger := range some {
			rules[i] = kyvernov2.RuleContext{Rule: t.Rule, Trigger: trigger, Synchronize: true}
		}
		u := w.NewWork(t.u.Spec.Policy, t.u.Spec.RequestType, t.u.Labels[updaterequest.LabelGeneratePolicy], rules,
			t.u.Name, string(t.u.UID), fmt.Sprint(t.u.Generation), NameOf(rules))
		if err := w.Client.Create(ctx, u); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("write UpdateRequest: %w", err))
		}
	}
	return errors.Join(errs...)
}
