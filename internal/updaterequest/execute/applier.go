package execute

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/value"
)

// applier writes what the planner planned: exactly that, and only to objects that it may change.
type applier struct {
	client client.Client
	made   *origin.Objects
	report *reporter
	log    *slog.Logger
}

// wrap adds the attempted action to an error.
func wrap(err error, attempt string) error { return fmt.Errorf("%s: %w", attempt, err) }

// fieldManager is the field manager of server-side apply.
const fieldManager = "generate"

// write writes one object exactly as planned. It leaves an existing object unchanged unless the rule synchronizes.
func (x *applier) write(ctx context.Context, t *task, g *policy.Generated) error {
	planned := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(g.Object)}
	text := updaterequest.ObjectText(planned)
	if !t.program.Reach().Allows(planned.GetNamespace()) {
		return fmt.Errorf("%s is out of reach: the policy generates only in the namespace %s", text, t.program.Reach().Namespace())
	}
	if t.program.Namespace != "" && compile.Kinds.Delegates(planned.GroupVersionKind().GroupKind()) {
		return fmt.Errorf("%s is out of reach: a namespaced policy writes no policies", text)
	}
	generation := t.rule.Generation
	if err := x.made.Stamp(ctx, planned, t.program, t.rule, t.Trigger, g.Source); err != nil {
		return err
	}
	if g.Source != nil {
		planned.SetOwnerReferences(nil) // these belong to the source
		if !generation.Watched {
			if err := x.markSource(ctx, t, g, planned); err != nil {
				return err
			}
		}
	} else if err := x.leaveForeignOwners(ctx, t, planned); err != nil {
		return err
	}
	updates := generation.Synchronize || generation.Own
	if updates && generation.ServerSideApply {
		return x.applyOnServer(ctx, t, planned, g)
	}
	if !updates || !t.made {
		there, err := x.create(ctx, t, planned, g)
		if err != nil || !there {
			return err
		}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(planned.GroupVersionKind())
	err := x.client.Get(ctx, client.ObjectKeyFromObject(planned), live)
	switch {
	case err == nil && live.GetDeletionTimestamp() != nil:
		return x.replace(ctx, t, live, planned, g)
	case !updates && (err == nil || apierrors.IsForbidden(err)):
		return nil
	case err == nil:
		if err := x.owns(ctx, t, live); err != nil {
			return err
		}
		return x.update(ctx, t, live, planned, g)
	case !apierrors.IsNotFound(err):
		return wrap(err, "read "+text)
	}
	there, err := x.create(ctx, t, planned, g)
	if there {
		err = meanwhile(text)
	}
	return err
}

// create creates the object, or reports that it already exists. It does not create objects in a terminating namespace.
func (x *applier) create(ctx context.Context, t *task, planned *unstructured.Unstructured, g *policy.Generated) (there bool, err error) {
	created := planned.DeepCopy()
	err = x.client.Create(ctx, created, t.owner(fieldManager))
	switch {
	case err == nil:
		x.record(t, created, g, planOf(created, planned))
		x.report.generated(t, created)
		return false, nil
	case ending(err):
		x.log.Debug("no object is generated in a namespace that is being deleted", "object", updaterequest.ObjectText(planned))
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return true, nil
	}
	return false, wrap(err, "create "+updaterequest.ObjectText(planned))
}

// replace creates the object in place of one that is being deleted, as soon as that one is gone.
func (x *applier) replace(ctx context.Context, t *task, live, planned *unstructured.Unstructured, g *policy.Generated) error {
	there, err := x.create(ctx, t, planned, g)
	if there {
		err = t.leaves(live)
	}
	return err
}

// leaves returns the error for an object that is being deleted, and has the name of an object to generate. The work waits, and fails if the
// object stays.
func (t *task) leaves(live *unstructured.Unstructured) error {
	reason := updaterequest.ObjectText(live) + " is being deleted, and can only be generated when it is gone"
	if f := live.GetFinalizers(); len(f) > 0 {
		reason += fmt.Sprintf(" (it has the finalizers %s)", strings.Join(f, ", "))
	}
	if t.waited > patience {
		return errors.New(reason)
	}
	return notYetError{reason}
}

// update brings the existing object up to date.
func (x *applier) update(ctx context.Context, t *task, live, planned *unstructured.Unstructured, g *policy.Generated) error {
	plan := planOf(live, planned)
	if plan == "" || x.upToDate(live, plan) {
		x.record(t, live, g, plan)
		return nil
	}
	next := replaced(live, planned)
	written := next.DeepCopy()
	err := x.client.Update(ctx, written, t.owner(fieldManager))
	if apierrors.IsInvalid(err) {
		// Fields that the API server has set to defaults must not be removed.
		if next.Object = overlay(live.Object, next.Object).(map[string]any); value.Equal(next.Object, live.Object) {
			x.record(t, live, g, plan)
			return nil
		}
		written = next
		err = x.client.Update(ctx, written, t.owner(fieldManager))
	}
	if err != nil {
		return wrap(err, "update "+updaterequest.ObjectText(planned))
	}
	x.record(t, written, g, planOf(written, planned))
	if written.GetResourceVersion() != live.GetResourceVersion() { // the API server has stored a change
		x.report.generated(t, next)
	}
	return nil
}

// applyOnServer writes the plan with server-side apply. It also does so for a new object, because the fields of an ordinary create could
// not be removed later. The write includes the object's resourceVersion, so that a late write does not undo a change of another client.
func (x *applier) applyOnServer(ctx context.Context, t *task, planned *unstructured.Unstructured, g *policy.Generated) error {
	text := updaterequest.ObjectText(planned)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(planned.GroupVersionKind())
	switch err := x.client.Get(ctx, client.ObjectKeyFromObject(planned), live); {
	case err == nil && live.GetDeletionTimestamp() != nil:
		if ending(x.client.Create(ctx, planned.DeepCopy(), t.owner(fieldManager), client.DryRunAll)) {
			return nil
		}
		return t.leaves(live)
	case err == nil:
		if err := x.owns(ctx, t, live); err != nil {
			return err
		}
		planned.SetUID(live.GetUID())
		planned.SetResourceVersion(live.GetResourceVersion())
	case !apierrors.IsNotFound(err):
		return wrap(err, "read "+text)
	}
	err := x.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(planned), t.owner(fieldManager), client.ForceOwnership)
	switch {
	case ending(err):
		return nil
	case err != nil:
		return wrap(err, "apply "+text)
	}
	x.record(t, planned, g, "")
	if planned.GetResourceVersion() != live.GetResourceVersion() {
		x.report.generated(t, planned)
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
func (x *applier) markSource(ctx context.Context, t *task, g *policy.Generated, planned *unstructured.Unstructured) error {
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
	err := x.client.Get(ctx, client.ObjectKey{Namespace: g.Source.Namespace, Name: g.Source.Name}, source)
	if err == nil && string(source.GetUID()) == g.Source.UID {
		labels = union(source.GetLabels(), map[string]string{updaterequest.LabelSource: ""})
		if len(labels) == len(source.GetLabels()) {
			t.reads.mark(g.Source.UID)
			return nil // another writer was faster
		}
		before := source.GetResourceVersion()
		source.SetLabels(labels)
		if err = x.client.Update(ctx, source); err == nil {
			t.sources.written(*g.Source, before, source.GetResourceVersion())
		}
	}
	switch {
	case err == nil:
		t.reads.mark(g.Source.UID)
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		x.report.failure(event.GenerateController, t, event.Reference{
			APIVersion: g.Source.APIVersion, Kind: g.Source.Kind, Namespace: g.Source.Namespace, Name: g.Source.Name, UID: g.Source.UID,
		}, fmt.Errorf("changes of the source will not be noticed: %w", err))
		return nil // the copy is current, although later changes of its source will be missed
	}
	return wrap(err, "label the source "+g.Source.Namespace+"/"+g.Source.Name)
}

// errLeftAlone means that an object with this name exists that the rule did not generate and must not change (Generation.Own).
var errLeftAlone = errors.New("another object has this name")

// owns returns errLeftAlone if a rule may not change an existing object with the name of one of its own (Generation.Own): it must have generated
// it for the trigger, because of its mark, of the record or, if it has neither, of its labels. Labels are sufficient here, since the rule
// generates exactly this object for this existing trigger. A user who forges them gains no more than by creating the object.
func (x *applier) owns(ctx context.Context, t *task, live *unstructured.Unstructured) error {
	if !t.rule.Generation.Own {
		return nil
	}
	c, proved, err := x.made.Claim(ctx, live)
	switch {
	case err != nil:
		return err
	case proved && origin.IsFor(c, t.program.Identity(), t.rule.Name, t.Trigger), !proved && origin.IsLabelled(live, t.program, t.Trigger):
		return nil
	}
	x.log.Debug("an object that the rule did not generate is not changed", "policy", t.program.Key(), "object", updaterequest.ObjectText(live))
	return errLeftAlone
}

// leaveForeignOwners removes ownerReferences to objects in other namespaces. The garbage collector would not find these owners, and would
// delete the object (S10 in docs/security/threat-model.md).
func (x *applier) leaveForeignOwners(ctx context.Context, t *task, planned *unstructured.Unstructured) error {
	owners := planned.GetOwnerReferences()
	if len(owners) == 0 {
		return nil
	}
	kept := make([]metav1.OwnerReference, 0, len(owners))
	for _, o := range owners {
		ok, err := x.beside(ctx, t, planned.GetNamespace(), o)
		if err != nil {
			return fmt.Errorf("look for the owner %s %s of %s: %w", o.Kind, o.Name, updaterequest.ObjectText(planned), err)
		}
		if ok {
			kept = append(kept, o)
			continue
		}
		x.report.failure(updaterequest.Controller(t.rule), t, updaterequest.Reference(t.Trigger),
			fmt.Errorf("the owner %s %s (%s) of %s is left out: it is not in the same namespace", o.Kind, o.Name, o.UID, updaterequest.ObjectText(planned)))
	}
	if len(kept) < len(owners) {
		planned.SetOwnerReferences(slices.Clip(kept))
		if len(kept) == 0 {
			planned.SetOwnerReferences(nil)
		}
	}
	return nil
}

// beside reports whether the owner is cluster-wide or in the given namespace.
func (x *applier) beside(ctx context.Context, t *task, namespace string, o metav1.OwnerReference) (bool, error) {
	if o.UID == t.Trigger.UID && (t.Trigger.Namespace == namespace || t.Trigger.Namespace == "") {
		return true, nil
	}
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	mapping, err := x.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, err
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		namespace = ""
	case namespace == "":
		return false, nil // a cluster-wide object cannot have an owner in a namespace
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(gvk)
	err = x.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, owner)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && owner.UID == o.UID, err
}

// record records an object that the task wrote, with its new version and its plan (planOf). It does not record objects that are not
// synchronized, because the worker will not touch them again.
func (x *applier) record(t *task, u *unstructured.Unstructured, g *policy.Generated, plan string) {
	if t.rule.Generation == nil || !t.rule.Generation.Synchronize {
		return
	}
	e := origin.EntryFor(t.program, t.rule, t.Trigger, g)
	e.Object, e.Version, e.Plan = origin.IdentityOf(u), u.GetResourceVersion(), plan
	x.made.Record.Add(e)
}

// planOf returns the digest of a plan if the API server stores it with more content, such as defaults of the kind. It is empty if the stored
// object shows that it has the planned content.
func planOf(stored, planned *unstructured.Unstructured) string {
	if value.Equal(replaced(stored, planned).Object, stored.Object) {
		return ""
	}
	sum := sha256.Sum256(value.AppendJSON(nil, planned.Object))
	return base64.RawStdEncoding.EncodeToString(sum[:9])
}

// upToDate reports whether a live object is as it was after the last write of the same plan.
func (x *applier) upToDate(live *unstructured.Unstructured, plan string) bool {
	e, known := x.made.Record.Object(string(live.GetUID()))
	return known && e.Plan == plan && e.Version == live.GetResourceVersion()
}
