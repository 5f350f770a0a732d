package execute

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// fieldManager is the field manager of server-side apply.
const fieldManager = "generate"

// apply writes one object exactly as planned. It leaves an existing object unchanged unless the rule synchronizes.
func (w *Worker) apply(ctx context.Context, t *task, g *policy.Generated) error {
	planned := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(g.Object)}
	text := ObjectText(planned)
	if !t.program.Reach().Allows(planned.GetNamespace()) {
		return fmt.Errorf("%s is out of reach: the policy generates only in the namespace %s", text, t.program.Reach().Namespace())
	}
	if t.program.Namespace != "" && compile.Kinds.Delegates(planned.GroupVersionKind().GroupKind()) {
		return fmt.Errorf("%s is out of reach: a namespaced policy writes no policies", text)
	}
	generation := t.rule.Generation
	if bareLabels(t.program) {
		t.label(planned, g.Source)
	}
	if err := w.mark(ctx, t, planned, g.Source); err != nil {
		return err
	}
	if g.Source != nil {
		planned.SetOwnerReferences(nil) // these belong to the source
		if !generation.Watched {
			if err := w.markSource(ctx, t, g, planned); err != nil {
				return err
			}
		}
	} else if err := w.leaveForeignOwners(ctx, t, planned); err != nil {
		return err
	}
	if generation.Own {
		return w.applyOwn(ctx, t, planned, g)
	}
	if generation.Synchronize && generation.ServerSideApply {
		return w.applyOnServer(ctx, t, planned, g)
	}
	if !generation.Synchronize || !t.made {
		there, err := w.create(ctx, t, planned, g)
		if err != nil || !there {
			return err
		}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(planned.GroupVersionKind())
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(planned), live)
	switch {
	case err == nil && live.GetDeletionTimestamp() != nil:
		return w.replace(ctx, t, live, planned, g)
	case !generation.Synchronize && (err == nil || apierrors.IsForbidden(err)):
		return nil
	case err == nil:
		return w.update(ctx, t, live, planned, g)
	case !apierrors.IsNotFound(err):
		return wrap(err, "read "+text)
	}
	there, err := w.create(ctx, t, planned, g)
	if there {
		err = meanwhile(text)
	}
	return err
}

// create creates the object, or reports that it already exists. It does not create objects in a terminating namespace.
func (w *Worker) create(ctx context.Context, t *task, planned *unstructured.Unstructured, g *policy.Generated) (there bool, err error) {
	created := planned.DeepCopy()
	err = w.Client.Create(ctx, created, t.owner(fieldManager))
	switch {
	case err == nil:
		w.note(t, created, g, planOf(created, planned))
		w.reportGenerated(t, planned)
		return false, nil
	case ending(err):
		w.Log.Debug("no object is generated in a namespace that is being deleted", "object", ObjectText(planned))
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return true, nil
	}
	return false, wrap(err, "create "+ObjectText(planned))
}

// replace creates the object in place of one that is being deleted, as soon as that one is gone.
func (w *Worker) replace(ctx context.Context, t *task, live, planned *unstructured.Unstructured, g *policy.Generated) error {
	there, err := w.create(ctx, t, planned, g)
	if there {
		err = t.leaves(live)
	}
	return err
}

// leaves returns the error for an object that is being deleted, and has the name of an object to generate. The work waits, and fails if the
// object stays.
func (t *task) leaves(live *unstructured.Unstructured) error {
	reason := ObjectText(live) + " is being deleted, and can only be generated when it is gone"
	if f := live.GetFinalizers(); len(f) > 0 {
		reason += fmt.Sprintf(" (it has the finalizers %s)", strings.Join(f, ", "))
	}
	if t.waited > patience {
		return errors.New(reason)
	}
	return notYetError{reason}
}

// update brings the existing object up to date.
func (w *Worker) update(ctx context.Context, t *task, live, planned *unstructured.Unstructured, g *policy.Generated) error {
	plan := planOf(live, planned)
	if plan == "" || w.upToDate(live, plan) {
		w.note(t, live, g, plan)
		return nil
	}
	next := replaced(live, planned)
	written := next.DeepCopy()
	err := w.Client.Update(ctx, written, t.owner(fieldManager))
	if apierrors.IsInvalid(err) {
		// Fields that the API server has set to defaults must not be removed.
		if next.Object = overlay(live.Object, next.Object).(map[string]any); value.Equal(next.Object, live.Object) {
			w.note(t, live, g, plan)
			return nil
		}
		written = next
		err = w.Client.Update(ctx, written, t.owner(fieldManager))
	}
	if err != nil {
		return wrap(err, "update "+ObjectText(planned))
	}
	w.note(t, written, g, planOf(written, planned))
	if written.GetResourceVersion() != live.GetResourceVersion() { // the API server has stored a change
		w.reportGenerated(t, next)
	}
	return nil
}

// applyOnServer writes the plan with server-side apply. It also does so for a new object, because the fields of an ordinary create could
// not be removed later. The write includes the object's resourceVersion, so that a late write does not undo a change of another client.
func (w *Worker) applyOnServer(ctx context.Context, t *task, planned *unstructured.Unstructured, g *policy.Generated) error {
	text := ObjectText(planned)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(planned.GroupVersionKind())
	switch err := w.Client.Get(ctx, client.ObjectKeyFromObject(planned), live); {
	case err == nil && live.GetDeletionTimestamp() != nil:
		return t.leaves(live)
	case err == nil:
		planned.SetUID(live.GetUID())
		planned.SetResourceVersion(live.GetResourceVersion())
	case !apierrors.IsNotFound(err):
		return wrap(err, "read "+text)
	}
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(planned), t.owner(fieldManager), client.ForceOwnership)
	switch {
	case ending(err):
		return nil
	case err != nil:
		return wrap(err, "apply "+text)
	}
	w.note(t, planned, g, "")
	if planned.GetResourceVersion() != live.GetResourceVersion() {
		w.reportGenerated(t, planned)
	}
	return nil
}

// ending reports whether an object cannot be created because its namespace is terminating.
func ending(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// replaced returns the live object with the planned content. It keeps the status, and what other clients added to the metadata.
func replaced(live, planned *unstructured.Unstructured) *unstructured.Unstructured {
	next := planned.DeepCopy()
	metadata, _ := runtime.DeepCopyJSONValue(live.Object["metadata"]).(map[string]any)
	next.Object["metadata"] = metadata
	next.SetLabels(union(live.GetLabels(), planned.GetLabels()))
	next.SetAnnotations(union(live.GetAnnotations(), planned.GetAnnotations()))
	if owners := planned.GetOwnerReferences(); owners != nil {
		next.SetOwnerReferences(owners)
	}
	if finalizers := planned.GetFinalizers(); finalizers != nil {
		next.SetFinalizers(finalizers)
	}
	if status, ok := live.Object["status"]; ok {
		next.Object["status"] = runtime.DeepCopyJSONValue(status)
	}
	return next
}

func union(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// overlay returns live with the fields of planned. A list has the planned elements, each merged into the live element with the same name.
// For example, the containers of a Pod keep the volumes that admission added.
func overlay(live, planned any) any {
	if list, ok := planned.([]any); ok {
		have, _ := live.([]any)
		out := make([]any, len(list))
		for i, e := range list {
			out[i] = overlay(named(have, e), e)
		}
		return out
	}
	l, ok := live.(map[string]any)
	p, both := planned.(map[string]any)
	if !ok || !both {
		return planned
	}
	out := maps.Clone(l)
	for k, v := range p {
		out[k] = overlay(l[k], v)
	}
	return out
}

// named returns the element of the list that has the same name as e, or nil if there is none.
func named(list []any, e any) any {
	wanted, _ := e.(map[string]any)
	name, _ := wanted["name"].(string)
	if name == "" {
		return nil
	}
	for _, x := range list {
		if m, ok := x.(map[string]any); ok && m["name"] == name {
			return x
		}
	}
	return nil
}

// markSource labels the source of a copy, so that admission evaluates its changes. The copy does not get the label.
func (w *Worker) markSource(ctx context.Context, t *task, g *policy.Generated, planned *unstructured.Unstructured) error {
	labels := planned.GetLabels()
	if _, marked := labels[updaterequest.LabelSource]; marked {
		delete(labels, updaterequest.LabelSource)
		planned.SetLabels(labels)
		return nil
	}
	if !t.rule.Generation.Synchronize || !t.reads.unmarked(g.Source.UID) {
		return nil
	}
	source := &unstructured.Unstructured{}
	source.SetAPIVersion(g.Source.APIVersion)
	source.SetKind(g.Source.Kind)
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: g.Source.Namespace, Name: g.Source.Name}, source)
	if err == nil && string(source.GetUID()) == g.Source.UID {
		labels = union(source.GetLabels(), map[string]string{updaterequest.LabelSource: ""})
		if len(labels) == len(source.GetLabels()) {
			t.reads.mark(g.Source.UID)
			return nil // another writer was faster
		}
		before := source.GetResourceVersion()
		source.SetLabels(labels)
		if err = w.Client.Update(ctx, source); err == nil {
			t.sources.written(*g.Source, before, source.GetResourceVersion())
		}
	}
	switch {
	case err == nil:
		t.reads.mark(g.Source.UID)
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		w.reportFailure(event.GenerateController, t, event.Reference{
			APIVersion: g.Source.APIVersion, Kind: g.Source.Kind, Namespace: g.Source.Namespace, Name: g.Source.Name, UID: g.Source.UID,
		}, fmt.Errorf("changes of the source will not be noticed: %w", err))
		return nil // the copy is current, although later changes of its source will be missed
	}
	return wrap(err, "label the source "+g.Source.Namespace+"/"+g.Source.Name)
}
