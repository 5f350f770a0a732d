package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// recountPause is the pause between two counts while the threshold is reached.
const recountPause = time.Second

// batches collects triggers into UpdateRequests.
type batches struct {
	ctx      context.Context
	f        *Follower
	program  *policy.Program
	rule     *policy.Rule
	why      string // a part of the names
	triggers []kyvernov2.ResourceSpec
	seen     map[string]bool
	written  int
	delayed  bool
	began    time.Time
}

func (b *batches) add(t kyvernov2.ResourceSpec) error {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	key := string(t.UID)
	if key == "" {
		key = updaterequest.Text(t)
	}
	if b.seen[key] {
		return nil
	}
	if len(b.triggers) >= updaterequest.Batch { // an earlier attempt could not write them
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.seen[key] = true
	b.triggers = append(b.triggers, t)
	if len(b.triggers) < updaterequest.Batch {
		return nil
	}
	return b.flush()
}

// flush writes one UpdateRequest as soon as the threshold allows it.
func (b *batches) flush() error {
	if len(b.triggers) == 0 {
		return nil
	}
	if err := b.room(); err != nil {
		return err
	}
	rules := make([]kyvernov2.RuleContext, len(b.triggers))
	for i, t := range b.triggers {
		rules[i] = kyvernov2.RuleContext{Rule: b.rule.Name, Trigger: t, Synchronize: b.rule.Generation != nil && b.rule.Generation.Synchronize}
	}
	if err := b.write(rules, []string{b.rule.Name, b.program.UID, strconv.FormatInt(b.program.Generation, 10), b.why, strconv.Itoa(b.written)}); err != nil {
		return err
	}
	b.written++
	b.triggers = nil
	return nil
}

// round identifies a round for the existing objects of a rule.
type round struct {
	id         catalog.ID
	uid        string
	generation int64
	rule       string
}

// begin returns the batches of a round. A round that failed goes on with the triggers that have no UpdateRequest yet, because the work of the
// others may be done, and must not be done twice.
func (f *Follower) begin(ctx context.Context, p *policy.Program, r *policy.Rule) *batches {
	this, now := round{catalog.IDOf(p), p.UID, p.Generation, r.Name}, f.Now()
	b := f.unfinished[this]
	if b == nil || now.Sub(b.began) >= f.Every {
		b = &batches{f: f, why: "existing", began: now}
	}
	if f.unfinished == nil {
		f.unfinished = map[round]*batches{}
	}
	f.unfinished[this] = b
	b.ctx, b.program, b.rule, b.delayed = ctx, p, r, false
	return b
}

// write writes an UpdateRequest for the rules. It replaces one with the same name that has failed. If one with the same name still waits, it
// writes another one for the triggers that are not in that one.
func (b *batches) write(rules []kyvernov2.RuleContext, name []string) error {
	for range updaterequest.Attempts {
		u := updaterequest.New(b.f.Namespace, b.program.Key(), updaterequest.Type(b.program.Identity(), b.rule), updaterequest.LabelValue(b.program.Name), rules, name...)
		err := b.f.Client.Create(b.ctx, u)
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("write UpdateRequest: %w", err)
		}
		there := &kyvernov2.UpdateRequest{}
		switch err := b.f.Client.Get(b.ctx, client.ObjectKeyFromObject(u), there); {
		case apierrors.IsNotFound(err):
			continue // it was executed meanwhile
		case err != nil:
			return fmt.Errorf("read UpdateRequest %s: %w", u.Name, err)
		case there.Status.State == kyvernov2.Failed:
			err := b.f.Client.Delete(b.ctx, there, client.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("replace UpdateRequest %s: %w", u.Name, err)
			}
			continue
		}
		rules = slices.DeleteFunc(slices.Clone(rules), func(r kyvernov2.RuleContext) bool { return slices.Contains(updaterequest.Rules(&there.Spec), r) })
		if len(rules) == 0 {
			return nil
		}
		name = append(name, updaterequest.NameOf(rules))
	}
	return fmt.Errorf("write UpdateRequest: its names are in use: %s", name)
}

// errSuperseded ends the work for a policy that has changed in the meantime.
var errSuperseded = errors.New("the policy was changed or deleted")

// room waits until the number of UpdateRequests is below updateRequestThreshold. It reports the wait, and returns an error if the policy
// changes.
func (b *batches) room() error {
	defer func() {
		if b.delayed {
			b.f.observe(0)
		}
	}()
	for {
		err := b.f.full(b.ctx)
		late := updaterequest.ThresholdError{}
		switch {
		case !errors.As(err, &late):
			return err
		case !b.delayed:
			b.delayed = true
			b.f.Log.Warn("the work for existing objects is delayed", "policy", b.program.Key(), "rule", b.rule.Name, "reason", late)
			b.f.Events.Record(event.Event{
				Regarding: event.PolicyReference(b.program), Reason: event.PolicyError, Action: event.None, Controller: updaterequest.Controller(b.rule),
				Note: fmt.Sprintf("policy %s/%s error: its work is delayed: %v", b.program.Key(), b.rule.Name, late),
			})
		}
		b.f.observe(1)
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(recountPause):
		}
		if b.f.Snapshot().Get(catalog.IDOf(b.program)) != b.program {
			return errSuperseded
		}
		b.f.settleMeanwhile(b.ctx)
	}
}

// full returns a ThresholdError while the threshold is reached.
func (f *Follower) full(ctx context.Context) error {
	limit := 0
	if f.Threshold != nil {
		limit = f.Threshold()
	}
	if limit <= 0 {
		return nil
	}
	n, err := updaterequest.NewAPI(f.Client).Count(ctx, f.Namespace)
	if err != nil {
		return fmt.Errorf("count the UpdateRequests: %w", err)
	}
	if f.Observer != nil {
		f.Observer.UpdateRequests(n)
	}
	if n >= limit {
		return updaterequest.ThresholdError{Limit: limit}
	}
	return nil
}

func (f *Follower) observe(waiting int) {
	if f.Observer != nil {
		f.Observer.UpdateRequestsWaiting(waiting)
	}
}
