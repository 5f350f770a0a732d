package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/updaterequest"
)

// divide removes the finished triggers from an UpdateRequest that this replica shares with others, and removes the UpdateRequest when no
// trigger is left. The other replicas notice this change or, if a replica ends, the change of the ring.
func (x *finisher) divide(ctx context.Context, u *kyvernov2.UpdateRequest, p *progress) (again time.Duration, err error) {
	for range updaterequest.Attempts {
		left := slices.DeleteFunc(updaterequest.Rules(&u.Spec), func(r kyvernov2.RuleContext) bool { return p.done[r] })
		if len(left) == 0 {
			return x.finish(ctx, u)
		}
		if len(left) == len(updaterequest.Rules(&u.Spec)) {
			return 0, nil
		}
		next := u.DeepCopy()
		next.Spec.RuleContext = left
		err = x.client.Update(ctx, next)
		switch {
		case err == nil:
			return 0, nil
		case apierrors.IsNotFound(err):
			x.forget(u.Name)
			return 0, nil
		case !apierrors.IsConflict(err):
			return 0, fmt.Errorf("remove the executed part of UpdateRequest %s: %w", u.Name, err)
		case updaterequest.Asked(u):
			return x.soon(u.Name), nil // another request may have requested the work again
		}
		fresh := &kyvernov2.UpdateRequest{}
		if err := x.client.Get(ctx, client.ObjectKeyFromObject(u), fresh); err != nil || fresh.UID != u.UID {
			return x.soon(u.Name), nil
		}
		u = fresh
	}
	return 0, fmt.Errorf("remove the executed part of UpdateRequest %s: %w", u.Name, err)
}

// separable reports whether the rules that failed are only some of those in an UpdateRequest without a request, so that they can get an
// UpdateRequest of their own.
func (p *progress) separable(u *kyvernov2.UpdateRequest, failed error) bool {
	return !updaterequest.Asked(u) && !updaterequest.OfSource(u) && len(p.failing) < len(updaterequest.Rules(&u.Spec)) && (!onlyConflicts(failed) || p.conflicts >= updaterequest.Attempts)
}

// separate moves the rules that failed to an UpdateRequest of their own, which has their status, and removes them and the executed ones from
// the UpdateRequest. Otherwise the executed rules would be executed again after a restart, and the rules of other replicas would not be
// executed any more after the last attempt.
func (x *finisher) separate(ctx context.Context, u *kyvernov2.UpdateRequest, p *progress, failed error) (again time.Duration, err error) {
	next := updaterequest.Part(u, "failed", p.failing)
	if text := writtenText(u, p); text != "" {
		next.Annotations = map[string]string{writtenAnnotation: text}
	}
	if err := x.client.Create(ctx, next); err != nil && !apierrors.IsAlreadyExists(err) {
		return x.failed(ctx, u, failed)
	}
	for _, r := range p.failing {
		p.done[r] = true
	}
	return x.divide(ctx, u, p)
}

// lookAgain requests another check of the triggers that were in progress when the replica lost the key, unless the work is still pending.
// A late create could follow the work of the new owner, and recreate an object whose trigger was deleted. Late updates and deletions fail,
// because they include the version that was read.
func (x *finisher) lookAgain(ctx context.Context, u *kyvernov2.UpdateRequest, lapsed []kyvernov2.RuleContext) {
	lapsed = slices.DeleteFunc(lapsed, func(r kyvernov2.RuleContext) bool { return r.DeleteDownstream })
	if updaterequest.Mutates(u.Spec.RequestType) || len(lapsed) == 0 {
		return
	}
	if err := x.client.Get(ctx, client.ObjectKeyFromObject(u), &kyvernov2.UpdateRequest{}); err == nil {
		return // the holder of the key does this
	}
	var there, away []kyvernov2.RuleContext
	for _, r := range lapsed {
		if _, err := x.read.reads([]kyvernov2.ResourceSpec{r.Trigger}).live(ctx, r.Trigger); isGone(err) {
			away = append(away, r)
		} else {
			there = append(there, r)
		}
	}
	for why, rules := range map[string][]kyvernov2.RuleContext{"there": there, "gone": away} {
		if len(rules) == 0 {
			continue
		}
		next := updaterequest.Part(u, why, rules)
		if why == "there" {
			next.Spec.Context = *u.Spec.Context.DeepCopy() // the triggers are evaluated with the same request
			updaterequest.KeepHeld(u, next, rules)
		}
		if err := x.client.Create(ctx, next); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			x.log.Warn("the work in progress when this replica lost its share could not be recorded", "name", u.Name, "error", err)
		}
	}
}

// leave passes the triggers of a source to the replicas that hold them, as separate UpdateRequests.
func (x *finisher) leave(ctx context.Context, t *task, triggers []kyvernov2.ResourceSpec) error {
	var errs []error
	for some := range slices.Chunk(triggers, updaterequest.Batch) {
		rules := make([]kyvernov2.RuleContext, len(some))
		for i, trigger := range some {
			rules[i] = kyvernov2.RuleContext{Rule: t.Rule, Trigger: trigger, Synchronize: true}
		}
		if err := x.client.Create(ctx, updaterequest.Part(t.u, fmt.Sprint(t.u.Generation), rules)); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("write UpdateRequest: %w", err))
		}
	}
	return errors.Join(errs...)
}
