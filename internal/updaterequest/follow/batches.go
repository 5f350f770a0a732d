package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// recountPause is the pause between two counts while the threshold is reached.
const recountPause = time.Second

// errWaits means that triggers wait until the threshold allows further UpdateRequests. The next call goes on with them.
var errWaits = errors.New("as many UpdateRequests wait as the threshold allows")

// batches collects triggers into UpdateRequests.
type batches struct {
	f        *Follower
	program  *policy.Program
	rule     *policy.Rule
	why      string                    // a part of the names
	triggers []kyvernov2.ResourceSpec  // those without an UpdateRequest
	seen     map[string]string         // the version of each trigger; empty where a generated object named it
	listed   map[schema.GroupKind]bool // the kinds all of whose triggers were found
	written  int
	began    time.Time
	complete bool // all triggers were found
	done     bool // all triggers of all rules of the policy have UpdateRequests
	delayed  bool // the threshold was reached
}

// existing is the reason of work for existing objects.
const existing = "existing"

// round identifies the work for one rule in one version of its policy.
type round struct {
	id         catalog.ID
	uid        string
	generation int64
	rule, why  string
}

// begin returns the batches of a round. A round that failed or waits goes on with the triggers that have no UpdateRequest yet, because the
// work of the others may be done, and must not be done twice. again: a round that is done looks for further triggers.
func (f *Follower) begin(p *policy.Program, r *policy.Rule, why string, again bool) *batches {
	this, now := round{catalog.IDOf(p), p.UID, p.Generation, r.Name, why}, f.Now()
	b := f.unfinished[this]
	switch {
	case b == nil, b.done && !again, now.Sub(b.began) >= f.Every && len(b.triggers) == 0:
		b = &batches{f: f, why: why, began: now, listed: map[schema.GroupKind]bool{}}
	case b.done:
		b.done, b.complete, b.listed = false, false, map[schema.GroupKind]bool{}
	}
	if f.unfinished == nil {
		f.unfinished = map[round]*batches{}
	}
	f.unfinished[this] = b
	b.program, b.rule = p, r
	return b
}

// has reports whether the round has a trigger in a version. An empty version stands for all.
func (b *batches) has(t kyvernov2.ResourceSpec, version string) bool {
	seen, ok := b.seen[updaterequest.TriggerID(t)]
	return ok && (version == "" || seen == version)
}

// add adds a trigger in a version. It writes the triggers when there are enough for an UpdateRequest.
func (b *batches) add(ctx context.Context, t kyvernov2.ResourceSpec, version string) error {
	if b.has(t, version) {
		return nil
	}
	if b.seen == nil {
		b.seen = map[string]string{}
	}
	b.seen[updaterequest.TriggerID(t)] = version
	b.triggers = append(b.triggers, t)
	if len(b.triggers) < updaterequest.Batch || b.delayed {
		return nil
	}
	if err := b.flush(ctx, updaterequest.Batch); !errors.Is(err, errWaits) {
		return err
	}
	return nil
}

// flush writes the triggers while there are at least so many of them, as far as the threshold allows it. If it does not, it returns errWaits.
func (b *batches) flush(ctx context.Context, least int) error {
	for len(b.triggers) >= least {
		if err := b.room(ctx); err != nil {
			return err
		}
		some := b.triggers[:min(len(b.triggers), updaterequest.Batch)]
		rules := make([]kyvernov2.RuleContext, len(some))
		for i, t := range some {
			rules[i] = kyvernov2.RuleContext{Rule: b.rule.Name, Trigger: t, Synchronize: b.rule.Generation != nil && b.rule.Generation.Synchronize}
		}
		if err := b.write(ctx, rules, []string{b.rule.Name, b.program.UID, strconv.FormatInt(b.program.Generation, 10), b.why, strconv.Itoa(b.written)}); err != nil {
			return err
		}
		b.written++
		b.triggers = b.triggers[len(some):]
	}
	return nil
}

// write writes an UpdateRequest for the rules. It replaces one with the same name that has failed. If one with the same name still waits, it
// writes another one for the triggers that are not in that one.
func (b *batches) write(ctx context.Context, rules []kyvernov2.RuleContext, name []string) error {
	for range updaterequest.Attempts {
		u := updaterequest.New(b.f.Namespace, b.program.Key(), updaterequest.Type(b.program.Identity(), b.rule), updaterequest.LabelValue(b.program.Name), rules, name...)
		if updaterequest.Mutates(u.Spec.RequestType) {
			u.Annotations = map[string]string{updaterequest.AnnotationRound: b.began.UTC().Format(time.RFC3339Nano)}
		}
		err := b.f.Client.Create(ctx, u)
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("write UpdateRequest: %w", err)
		}
		there := &kyvernov2.UpdateRequest{}
		switch err := b.f.Client.Get(ctx, client.ObjectKeyFromObject(u), there); {
		case apierrors.IsNotFound(err):
			continue // it was executed meanwhile
		case err != nil:
			return fmt.Errorf("read UpdateRequest %s: %w", u.Name, err)
		case there.Status.State == kyvernov2.Failed:
			err := b.f.Client.Delete(ctx, there, client.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion})
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

// room returns errWaits while the number of UpdateRequests has reached updateRequestThreshold, and reports this once.
func (b *batches) room(ctx context.Context) error {
	err := b.f.full(ctx)
	late := updaterequest.ThresholdError{}
	if !errors.As(err, &late) {
		if err == nil {
			b.delayed = false
		}
		return err
	}
	if !b.delayed {
		b.delayed = true
		b.f.Log.Warn("the work for existing objects is delayed", "policy", b.program.Key(), "rule", b.rule.Name, "reason", late)
		b.f.Events.Record(event.Event{
			Regarding: event.PolicyReference(b.program), Reason: event.PolicyError, Action: event.None, Controller: updaterequest.Controller(b.rule),
			Note: fmt.Sprintf("policy %s/%s error: its work is delayed: %v", b.program.Key(), b.rule.Name, late),
		})
	}
	return errWaits
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

// The two whose work may wait for the threshold: the rounds of the Follower, and the changes of the Watcher.
const ofRounds, ofChanges = 0, 1

// observe reports the number of rules whose UpdateRequests wait to be written, for one of the two.
func (f *Follower) observe(ctx context.Context, of, waiting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[of] = waiting
	if f.Observer != nil {
		f.Observer.RulesWaiting(ctx, f.waiting[ofRounds]+f.waiting[ofChanges])
	}
}

// observeRounds reports how many rounds have triggers that wait.
func (f *Follower) observeRounds(ctx context.Context) {
	n := 0
	for _, b := range f.unfinished {
		if b.delayed && len(b.triggers) > 0 {
			n++
		}
	}
	f.observe(ctx, ofRounds, n)
}
