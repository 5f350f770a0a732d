package updaterequest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// doMutateExisting changes the targets of a mutate rule, for one trigger.
func (w *Worker) doMutateExisting(ctx context.Context, t *task) error {
	req, err := w.request(ctx, t)
	if gone := (goneError{}); asGone(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	out := w.eval(ctx, t, req)
	var errs []error
	targets := 0
	for i := range out.Work {
		x := &out.Work[i]
		for j := range x.Targets {
			targets++
			if err := w.mutate(ctx, t, &x.Targets[j]); err != nil {
				errs = append(errs, err)
			}
		}
		if x.Err != nil {
			errs = append(errs, x.Err)
		}
	}
	for i := range out.Results {
		// What concerns the rule as a whole has no target.
		if r := &out.Results[i]; r.Status == policy.StatusError && targets == 0 && len(errs) == 0 {
			errs = append(errs, errors.New(r.Message))
		}
	}
	err = errors.Join(errs...)
	w.report(t, req, &out, err)
	if err != nil {
		w.tellFailure(event.MutateController, t, eventReference(t.Trigger), err)
		return err
	}
	return nil
}

// mutate writes one target as it was planned, unless somebody changed it since.
func (w *Worker) mutate(ctx context.Context, t *task, m *policy.Mutated) error {
	before := &unstructured.Unstructured{Object: m.Before}
	text := objectText(before)
	switch m.Status {
	case policy.StatusFail, policy.StatusError, policy.StatusWarn:
		return fmt.Errorf("%s: %s", text, m.Message)
	}
	if m.After == nil || value.Equal(m.Before, m.After) {
		return nil
	}
	if !t.program.Reach().Allows(before.GetNamespace()) {
		return fmt.Errorf("%s is out of reach: the policy changes only the namespace %s", text, t.program.Reach().Namespace())
	}
	after := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(m.After)}
	// It is written to the object that was read, whatever the patch says.
	after.SetAPIVersion(before.GetAPIVersion())
	after.SetKind(before.GetKind())
	after.SetNamespace(before.GetNamespace())
	after.SetName(before.GetName())
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	var err error
	if m.Subresource == "" {
		err = w.Client.Update(ctx, after, t.owner(""))
	} else {
		err = w.Client.SubResource(m.Subresource).Update(ctx, after, t.owner(""))
	}
	if err != nil {
		if m.Subresource != "" {
			text += "/" + m.Subresource
		}
		return wrap(err, "update "+text)
	}
	w.Events.Record(event.Event{
		Regarding: event.PolicyReference(t.program), Reason: event.PolicyApplied, Action: event.ResourceMutated, Controller: event.MutateController,
		Related: event.Reference{APIVersion: before.GetAPIVersion(), Kind: before.GetKind(), Namespace: before.GetNamespace(), Name: before.GetName(), UID: string(before.GetUID())},
		Note:    "resource mutated",
	})
	return nil
}
