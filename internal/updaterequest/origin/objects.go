package origin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Objects finds the objects that rules generated, and changes them. Its methods are safe for concurrent use.
type Objects struct {
	// Client must read without a cache.
	Client client.Client
	// Keys are the keys of the marks.
	Keys Keys
	// Record is the record of generated objects.
	Record *Record
	// Find returns the kinds of a kind selector, each in one version.
	Find   func(policy.Target) ([]schema.GroupVersionKind, error)
	Events event.Recorder
	Log    *slog.Logger
}

// Which selects some of the objects of a rule; the zero Which selects all.
type Which struct {
	// Trigger selects by the UID of the trigger.
	Trigger kyvernov2.ResourceSpec
	// Source selects by the UID of the copied source.
	Source types.UID
}

// labels returns the label selector for the same objects.
func (x Which) labels(set labels.Set) labels.Set {
	if t := x.Trigger; t.UID != "" {
		gvk := schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
		set[LabelPrefix+"trigger-group"], set[LabelPrefix+"trigger-version"], set[LabelPrefix+"trigger-kind"] = gvk.Group, gvk.Version, gvk.Kind
		set[LabelPrefix+"trigger-uid"] = string(t.UID)
	}
	if x.Source != "" {
		set[LabelPrefix+"source-uid"] = string(x.Source)
	}
	return set
}

// Found holds the objects of a rule in two groups: those with a proof, and those that only have its labels.
type Found struct {
	Proved   []Object                     // a mark or the record of generated objects proves that the rule generated them
	Unproved []*unstructured.Unstructured // they only have the labels of the rule
}

// Object is an object of a rule, with the content of its mark or of its entry in the record.
type Object struct {
	*unstructured.Unstructured
	Claim mark.Claim
}

// Filter removes the proved objects for which is returns false.
func (f *Found) Filter(is func(mark.Claim) bool) {
	f.Proved = slices.DeleteFunc(f.Proved, func(m Object) bool { return !is(m.Claim) })
}

// Triggers returns the distinct triggers of the objects.
func Triggers(objects []Object) []kyvernov2.ResourceSpec {
	var out []kyvernov2.ResourceSpec
	seen := map[kyvernov2.ResourceSpec]bool{}
	for _, m := range objects {
		if t := updaterequest.SpecIn(m.Claim.Trigger); !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// Of lists the objects of a rule, and those that have its labels. It lists only metadata, since there may be many objects. With the record
// of generated objects it also finds objects whose labels and marks were removed.
func (o *Objects) Of(ctx context.Context, p *policy.Program, r *policy.Rule, which Which) (out Found, err error) {
	set := which.labels(LabelsOfRule(p, r.Name))
	kinds, err := o.kindsOf(p, r)
	if err != nil {
		return Found{}, err
	}
	var errs []error
	for _, k := range kinds {
		options := &client.ListOptions{Namespace: p.Namespace, LabelSelector: labels.SelectorFromSet(set)}
		var failed error
		err := updaterequest.Each(ctx, o.Client, updaterequest.MetadataOf(k.GroupVersionKind), options, func(m *metav1.PartialObjectMetadata) bool {
			u := identity(k.GroupVersionKind, m)
			var c mark.Claim
			var proved bool
			switch c, proved, failed = o.Claim(ctx, u); {
			case failed != nil:
			case proved && IsOf(c, p.Identity(), r.Name):
				out.Proved = append(out.Proved, Object{u, c})
			default:
				out.Unproved = append(out.Unproved, u)
			}
			return failed == nil
		})
		switch {
		case failed != nil:
			return Found{}, failed
		case err == nil, updaterequest.Absent(err):
		case k.guessed && apierrors.IsForbidden(err):
			o.Log.Debug("cannot search for generated objects of a kind that the controller may not list", "policy", p.Key(), "rule", r.Name, "kind", k.Kind)
		default:
			errs = append(errs, err)
		}
	}
	errs = append(errs, o.recorded(ctx, p, r, which, &out))
	return out, errors.Join(errs...)
}

// recorded adds the objects of a rule that are only in the record.
func (o *Objects) recorded(ctx context.Context, p *policy.Program, r *policy.Rule, which Which, found *Found) error {
	var entries []Entry
	if which.Trigger.UID != "" {
		entries = o.Record.OfTrigger(RuleOf(p, r), string(which.Trigger.UID))
	} else {
		entries = o.Record.OfRule(RuleOf(p, r))
	}
	seen := make(map[string]bool, len(found.Proved))
	for _, m := range found.Proved {
		seen[string(m.GetUID())] = true
	}
	var errs []error
	for _, e := range entries {
		if seen[e.Object.UID] || which.Source != "" && e.Source != string(which.Source) {
			continue
		}
		u, err := o.LookUp(ctx, e.Object)
		if err != nil {
			errs = append(errs, err)
		} else if u != nil {
			found.Proved = append(found.Proved, Object{u, e.Claim})
		}
	}
	return errors.Join(errs...)
}

// LookUp reads the object of an entry. If the object was deleted, it returns nil and removes the entry from the record.
func (o *Objects) LookUp(ctx context.Context, of mark.Object) (*unstructured.Unstructured, error) {
	m := &metav1.PartialObjectMetadata{}
	m.APIVersion, m.Kind = of.APIVersion, of.Kind
	gvk := m.GroupVersionKind()
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, m)
	switch {
	case updaterequest.Missing(err), err == nil && string(m.UID) != of.UID:
		o.Record.Drop(of.UID)
		return nil, nil
	case err != nil && updaterequest.Absent(err):
		return nil, nil // the API server does not serve its kind at the moment
	case err != nil:
		return nil, fmt.Errorf("read %s %s/%s: %w", gvk.Kind, of.Namespace, of.Name, err)
	}
	return identity(gvk, m), nil
}

// identity returns an object without its content.
func identity(gvk schema.GroupVersionKind, o *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	u.SetUID(o.UID)
	u.SetResourceVersion(o.ResourceVersion)
	u.SetDeletionTimestamp(o.DeletionTimestamp)
	u.SetFinalizers(o.Finalizers)
	u.SetLabels(o.Labels)
	if text, marked := o.Annotations[mark.Annotation]; marked {
		u.SetAnnotations(map[string]string{mark.Annotation: text})
	}
	return u
}

// Remove deletes generated objects that have not changed since they were listed.
func (o *Objects) Remove(ctx context.Context, p *policy.Program, objects []Object) error {
	var errs []error
	for _, u := range objects {
		if !p.Reach().Allows(u.GetNamespace()) || u.GetDeletionTimestamp() != nil {
			continue
		}
		uid, version := u.GetUID(), u.GetResourceVersion()
		err := o.Client.Delete(ctx, u.Unstructured, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s: %w", updaterequest.ObjectText(u.Unstructured), err))
			continue
		}
		if err != nil || !lingers(u.Unstructured) {
			o.Record.Drop(string(uid)) // otherwise a later check drops the entry
		}
	}
	return errors.Join(errs...)
}

// lingers reports whether the object exists for a while after its deletion: until its finalizers are done, until a Pod has stopped, or until
// a Namespace is empty.
func lingers(u *unstructured.Unstructured) bool {
	kind := u.GroupVersionKind().GroupKind()
	return len(u.GetFinalizers()) > 0 || kind.Group == "" && (kind.Kind == "Pod" || kind.Kind == "Namespace")
}

// Release removes the labels and the mark of a rule from an object, and its entry from the record.
func (o *Objects) Release(ctx context.Context, found *unstructured.Unstructured) error {
	live, err := o.change(ctx, found, unlabel)
	if live != nil && err == nil {
		o.Record.Drop(string(live.GetUID()))
	}
	return err
}

// Remark writes the mark of an object with the current key.
func (o *Objects) Remark(ctx context.Context, m Object) error {
	ring, err := o.Keyring(ctx, false)
	if err == nil {
		_, err = o.change(ctx, m.Unstructured, func(live *unstructured.Unstructured) { setMark(live, ring, m.Claim) })
	}
	return err
}

// Adopt marks and records an unmarked object whose origin is proved by an evaluation.
func (o *Objects) Adopt(ctx context.Context, u *unstructured.Unstructured, e Entry) error {
	ring, err := o.Keyring(ctx, false)
	if err != nil {
		return err
	}
	live, err := o.change(ctx, u, func(live *unstructured.Unstructured) { setMark(live, ring, e.Claim) })
	if live != nil && err == nil {
		e.Object, e.Version = IdentityOf(live), live.GetResourceVersion()
		o.Record.Add(e)
	}
	return err
}

// change reads an object with its content, and writes it with a change. It returns nil if the listed object no longer exists. The write
// includes the version that was read.
func (o *Objects) change(ctx context.Context, found *unstructured.Unstructured, f func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(found.GroupVersionKind())
	err := o.Client.Get(ctx, client.ObjectKeyFromObject(found), live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read %s: %w", updaterequest.ObjectText(found), err)
	case err != nil, live.GetUID() != found.GetUID(), live.GetDeletionTimestamp() != nil:
		return nil, nil
	}
	f(live)
	if err := o.Client.Update(ctx, live); err != nil {
		return live, fmt.Errorf("mark %s: %w", updaterequest.ObjectText(live), err)
	}
	return live, nil
}

// NoteProved records objects that are proved by their marks.
func (o *Objects) NoteProved(r *policy.Rule, objects []Object) {
	if r.Generation == nil || !r.Generation.Synchronize {
		return
	}
	for _, m := range objects {
		if _, known := o.Record.Object(string(m.GetUID())); !known && m.GetDeletionTimestamp() == nil {
			o.Record.Add(Entry{Claim: m.Claim, Object: IdentityOf(m.Unstructured)})
		}
	}
}

// maxReported is the maximum number of events about unproved objects of one rule in one round, since any user can create such objects.
const maxReported = 20

// ReportUnproved records events about objects that have the labels of a rule but no proof.
func (o *Objects) ReportUnproved(p *policy.Program, r *policy.Rule, objects ...*unstructured.Unstructured) {
	if len(objects) == 0 {
		return
	}
	o.Log.Warn("objects are not changed: their labels claim that a rule generated them, but there is no proof", "policy", p.Key(), "rule", r.Name, "objects", len(objects), "first", updaterequest.ObjectText(objects[0]))
	for _, u := range objects[:min(len(objects), maxReported)] {
		o.Events.Record(event.Event{
			Regarding: event.PolicyReference(p), Related: updaterequest.Reference(updaterequest.SpecOf(u)), Reason: event.PolicyError, Action: event.None, Controller: updaterequest.Controller(r),
			Note: fmt.Sprintf("policy %s/%s error: %s is not changed: its labels claim that the rule generated it, but there is no proof; see `ephor adopt`", p.Key(), r.Name, updaterequest.ObjectText(u)),
		})
	}
}
