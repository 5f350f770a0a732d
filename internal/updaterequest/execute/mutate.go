package execute

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// mutate writes one target as planned, unless another client has changed it since.
func (x *applier) mutate(ctx context.Context, t *task, m *policy.Mutated) error {
	before := &unstructured.Unstructured{Object: m.Before}
	text := updaterequest.ObjectText(before)
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
	if t.program.Namespace != "" && compile.Kinds.Delegates(before.GroupVersionKind().GroupKind()) {
		return fmt.Errorf("%s is out of reach: a namespaced policy writes no policies", text)
	}
	after := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(m.After)}
	// The write goes to the object that was read, even if the patch changes its identity.
	after.SetAPIVersion(before.GetAPIVersion())
	after.SetKind(before.GetKind())
	after.SetNamespace(before.GetNamespace())
	after.SetName(before.GetName())
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	var err error
	switch m.Subresource {
	case "":
		err = x.client.Update(ctx, after, t.owner(""))
	case "scale":
		err = x.scale(ctx, t, before, after)
	default:
		err = x.client.SubResource(m.Subresource).Update(ctx, after, t.owner(""))
	}
	if err != nil {
		if m.Subresource != "" {
			text += "/" + m.Subresource
		}
		return wrap(err, "update "+text)
	}
	if m.Subresource == "" && after.GetResourceVersion() == before.GetResourceVersion() {
		return nil // the API server stores the same content in another form, so nothing has changed
	}
	x.report.events.Record(event.Event{
		Regarding: event.PolicyReference(t.program), Reason: event.PolicyApplied, Action: event.ResourceMutated, Controller: event.MutateController,
		Related: event.Reference{APIVersion: before.GetAPIVersion(), Kind: before.GetKind(), Namespace: before.GetNamespace(), Name: before.GetName(), UID: string(before.GetUID())},
		Note:    "resource mutated",
	})
	return nil
}

// scale writes the changes to the subresource scale, which has a kind of its own. It fails if the object has changed since it was read.
func (x *applier) scale(ctx context.Context, t *task, before, after *unstructured.Unstructured) error {
	scale := &unstructured.Unstructured{}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	if err := x.client.SubResource("scale").Get(ctx, before, scale); err != nil {
		return err
	}
	if scale.GetResourceVersion() != before.GetResourceVersion() {
		return meanwhile(updaterequest.ObjectText(before))
	}
	changes := changedIn(before.Object["spec"], after.Object["spec"])
	if changes == nil {
		return nil
	}
	scale.Object["spec"] = overlay(scale.Object["spec"], changes)
	return x.client.SubResource("scale").Update(ctx, after, t.owner(""), client.WithSubResourceBody(scale))
}

// changedIn returns the fields of after that differ from before, or nil if there are none.
func changedIn(before, after any) any {
	a, ok := after.(map[string]any)
	if !ok {
		if value.Equal(before, after) {
			return nil
		}
		return after
	}
	b, _ := before.(map[string]any)
	var out map[string]any
	for k, v := range a {
		if changed := changedIn(b[k], v); changed != nil {
			if out == nil {
				out = map[string]any{}
			}
			out[k] = changed
		}
	}
	if out == nil {
		return nil
	}
	return out
}
