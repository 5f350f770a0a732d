package execute

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Labels select the objects of rules, and marks prove them, since every user who may write an object may write its labels. The worker
// only acts on a label if a mark (package mark) confirms it, or if the rule, evaluated for a trigger that exists in the API server,
// generates exactly the object with the label.

// Keys returns the keys of marks. With fresh it includes keys that another replica has just created.
type Keys func(ctx context.Context, fresh bool) (*seal.Keyring, error)

// Keyring returns the keys of marks.
func (w *Worker) Keyring(ctx context.Context, fresh bool) (*seal.Keyring, error) {
	if w.Keys == nil {
		return nil, errors.New("there are no keys for the marks of generated objects")
	}
	ring, err := w.Keys(ctx, fresh)
	if err != nil {
		return nil, fmt.Errorf("the marks of generated objects cannot be checked: %w", err)
	}
	return ring, nil
}

// Claim returns the content of an object's mark or, if there is no mark, of its entry in the record of generated objects. ok is
// false if neither proves anything about this object. err is a failure to read the keys, which says nothing about the object.
func (w *Worker) Claim(ctx context.Context, u *unstructured.Unstructured) (c mark.Claim, ok bool, err error) {
	if c, ok, err = w.marked(ctx, u); ok || err != nil {
		return c, ok, err
	}
	if e, known := w.Ledger.Object(string(u.GetUID())); known && e.Object == withUID(u) {
		return e.Claim, true, nil
	}
	return c, false, nil
}

// marked reads the mark of an object.
func (w *Worker) marked(ctx context.Context, u *unstructured.Unstructured) (c mark.Claim, ok bool, err error) {
	text, of := u.GetAnnotations()[mark.Annotation], objectOf(u)
	if text == "" {
		return c, false, nil
	}
	for _, fresh := range []bool{false, true} {
		ring, err := w.Keyring(ctx, fresh)
		if err != nil {
			return c, false, err
		}
		c, err = mark.Read(ring, text, of)
		if !errors.Is(err, seal.ErrUnknownKey) {
			return c, err == nil, nil
		}
	}
	return c, false, nil
}

// objectOf returns the identity of an object in the form that marks use.
func objectOf(u *unstructured.Unstructured) mark.Object {
	return mark.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// triggerIn returns the trigger of a claim.
func triggerIn(c mark.Claim) kyvernov2.ResourceSpec {
	t := c.Trigger
	return kyvernov2.ResourceSpec{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, UID: types.UID(t.UID)}
}

// withUID returns the identity of an object with its UID.
func withUID(u *unstructured.Unstructured) mark.Object {
	o := objectOf(u)
	o.UID = string(u.GetUID())
	return o
}

// IsOf reports whether the claim names the rule of the policy.
func IsOf(c mark.Claim, id policy.ID, rule string) bool {
	return c.Rule == rule && updaterequest.IDOf(c) == id
}

// isFor reports whether the claim names the rule and the trigger. It identifies a trigger without a name by its UID.
func isFor(c mark.Claim, id policy.ID, rule string, t kyvernov2.ResourceSpec) bool {
	a, b := schema.FromAPIVersionAndKind(c.Trigger.APIVersion, c.Trigger.Kind), schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
	return IsOf(c, id, rule) && c.Trigger.UID != "" && c.Trigger.UID == string(t.UID) && a.GroupKind() == b.GroupKind() &&
		(t.Name == "" || t.Name == c.Trigger.Name && t.Namespace == c.Trigger.Namespace)
}

// mark adds the mark of the task's work to an object before it is written.
func (w *Worker) mark(ctx context.Context, t *task, planned *unstructured.Unstructured, source *policy.Source) error {
	ring, err := w.Keyring(ctx, false)
	if err != nil {
		return err
	}
	setMark(planned, mark.Make(ring, t.claim(source), objectOf(planned)))
	return nil
}

// claim returns the content of the mark for an object of the task.
func (t *task) claim(source *policy.Source) mark.Claim {
	c := updaterequest.ClaimOf(t.program.Identity(), t.rule.Name)
	c.Trigger = mark.Object{APIVersion: t.Trigger.APIVersion, Kind: t.Trigger.Kind, Namespace: t.Trigger.Namespace, Name: t.Trigger.Name, UID: string(t.Trigger.UID)}
	c.Asked = t.rule.AsksRequester()
	if source != nil {
		c.Source = source.UID
	}
	return c
}

func setMark(u *unstructured.Unstructured, text string) {
	u.SetAnnotations(union(u.GetAnnotations(), map[string]string{mark.Annotation: text}))
}

// entitle decides whether the task may be executed for its trigger. Labels or a scan may have named the trigger. It stores the limits of
// the work in the task: the trigger as named in a mark, or the one object that the rule may write.
//
//   - A request for the trigger itself is sufficient, because the worker reads the trigger before it does anything.
//   - A request for an object whose labels name the trigger is sufficient if the mark of that object proves it. Without a proof, only
//     this object is written, if the rule generates exactly this object for the trigger. A rule that depends on the requester writes
//     nothing, since the requester is unknown.
//   - For a trigger that the controller found itself, a rule that depends on the requester is only executed if it has already
//     generated an object for the trigger, for a requester that met the conditions.
func (w *Worker) entitle(ctx context.Context, t *task) (ok bool, err error) {
	if t.stored() != nil {
		return true, nil
	}
	if asked(t.u) {
		object := t.disturbed()
		if err := w.disturbanceStored(ctx, t, object); err != nil {
			return false, err
		}
		c, proved, err := w.Claim(ctx, object)
		switch {
		case err != nil:
			return false, err
		case proved && isFor(c, t.program.Identity(), t.Rule, t.Trigger) && (c.Asked || !t.rule.AsksRequester()):
			t.Trigger = triggerIn(c)
			return true, nil
		case t.rule.Generation == nil || t.rule.AsksRequester():
			w.ReportUnproved(t.program, t.rule, object)
			return false, nil
		}
		t.only = object
		return true, nil
	}
	if !t.rule.AsksRequester() {
		return true, nil
	}
	if t.rule.Generation != nil {
		found, err := w.Downstream(ctx, t.program, t.rule, Which{Trigger: t.Trigger})
		if err != nil {
			return false, err
		}
		for _, m := range found.Proved {
			if m.claim.Asked && isFor(m.claim, t.program.Identity(), t.Rule, t.Trigger) {
				t.Trigger = triggerIn(m.claim)
				return true, nil
			}
		}
	}
	w.Log.Info("a rule that depends on the requester is not executed for an object without a request", "policy", t.program.Key(), "rule", t.Rule, "trigger", updaterequest.Text(t.Trigger))
	return false, nil
}

// disturbed returns the object of the task's request in its former state. Its identity is taken from the request, not from the content of
// the object.
func (t *task) disturbed() *unstructured.Unstructured {
	r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	u := &unstructured.Unstructured{Object: decode(r.OldObject)}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	if u.GetName() == "" || r.Name != "" {
		u.SetName(r.Name)
	}
	u.SetNamespace(r.Namespace)
	u.SetGroupVersionKind(schema.GroupVersionKind(r.Kind))
	if r.Kind.Group == "" && r.Kind.Kind == "Namespace" {
		u.SetNamespace("") // its requests name it as their namespace, too
	}
	return u
}

// sameObject reports whether two objects have the same group, kind, namespace and name.
func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind() && a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

// makes returns the objects that the rule generates for an object as a trigger, for any requester. It returns nil if they are unknown,
// or depend on the requester.
func (w *Worker) makes(ctx context.Context, p *policy.Program, r *policy.Rule, trigger *unstructured.Unstructured) []policy.Generated {
	if r.AsksRequester() {
		return nil
	}
	out := w.Eval(ctx, engine.Input{
		Selections: []policy.Selection{{Program: p, Rules: []*policy.Rule{r}}},
		Request:    w.ScanRequest(trigger), Stages: r.Stage, Plan: true, Root: w.Root, Now: w.Now,
	})
	var made []policy.Generated
	for i := range out.Work {
		if x := &out.Work[i]; x.Kind == policy.WorkGenerate {
			made = append(made, x.Generated...)
		}
	}
	return made
}

// plannedAs returns the planned object with the identity of u, or nil if there is none.
func plannedAs(made []policy.Generated, u *unstructured.Unstructured) *policy.Generated {
	for i := range made {
		if sameObject(&unstructured.Unstructured{Object: made[i].Object}, u) {
			return &made[i]
		}
	}
	return nil
}

// Adopt marks an unmarked object that has the labels of a rule, if the labels are true: the trigger exists with that UID, and the rule
// generates exactly this object for it. Otherwise it leaves the object unchanged, and adopted is false.
func (w *Worker) Adopt(ctx context.Context, p *policy.Program, r *policy.Rule, u *unstructured.Unstructured, reads *reads) (adopted bool, err error) {
	triggers := TriggersOf([]*unstructured.Unstructured{u})
	if len(triggers) == 0 || r.AsksRequester() || !p.Reach().Allows(u.GetNamespace()) {
		return false, nil
	}
	trigger, err := reads.live(ctx, triggers[0])
	if gone := (goneError{}); asGone(err, &gone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	g := plannedAs(w.makes(ctx, p, r, trigger), u)
	if g == nil {
		return false, nil
	}
	t := &task{u: &kyvernov2.UpdateRequest{}, program: p, rule: r}
	t.Trigger = SpecOf(trigger)
	live, err := w.reread(ctx, u)
	if live == nil {
		return err == nil, err
	}
	if err := w.mark(ctx, t, live, g.Source); err != nil {
		return false, err
	}
	if err := w.Client.Update(ctx, live); err != nil {
		return true, wrap(err, "mark "+ObjectText(u))
	}
	w.note(t, live, g, "")
	return true, nil
}

// Remark writes the mark of an object with the current key.
func (w *Worker) Remark(ctx context.Context, m Object) error {
	live, err := w.reread(ctx, m.Unstructured)
	if live == nil {
		return err
	}
	ring, err := w.Keyring(ctx, false)
	if err != nil {
		return err
	}
	setMark(live, mark.Make(ring, m.claim, objectOf(live)))
	return wrapUnlessNil(w.Client.Update(ctx, live), "mark "+ObjectText(live))
}

// reread reads an object with its content. It returns nil if the listed object no longer exists.
func (w *Worker) reread(ctx context.Context, found *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(found.GroupVersionKind())
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(found), live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, wrap(err, "read "+ObjectText(found))
	case err != nil, live.GetUID() != found.GetUID(), live.GetDeletionTimestamp() != nil:
		return nil, nil
	}
	return live, nil
}

func SpecOf(u *unstructured.Unstructured) kyvernov2.ResourceSpec {
	return kyvernov2.ResourceSpec{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()}
}

func wrapUnlessNil(err error, attempt string) error {
	if err == nil {
		return nil
	}
	return wrap(err, attempt)
}

// maxReported is the maximum number of events about unproved objects of one rule in one round, since any user can create such objects.
const maxReported = 20

// ReportUnproved records events about objects that have the labels of a rule but no proof.
func (w *Worker) ReportUnproved(p *policy.Program, r *policy.Rule, objects ...*unstructured.Unstructured) {
	if len(objects) == 0 {
		return
	}
	w.Log.Warn("objects are not changed: their labels claim that a rule generated them, but there is no proof", "policy", p.Key(), "rule", r.Name, "objects", len(objects), "first", ObjectText(objects[0]))
	for _, u := range objects[:min(len(objects), maxReported)] {
		w.Events.Record(event.Event{
			Regarding: event.PolicyReference(p), Related: updaterequest.Reference(SpecOf(u)), Reason: event.PolicyError, Action: event.None, Controller: updaterequest.Controller(r),
			Note: fmt.Sprintf("policy %s/%s error: %s is not changed: its labels claim that the rule generated it, but there is no proof; see `ephor adopt`", p.Key(), r.Name, ObjectText(u)),
		})
	}
}
