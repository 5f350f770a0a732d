package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/wildcard"
)

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
	claim mark.Claim
}

// Keep removes the proved objects for which is returns false.
func (f *Found) Keep(is func(mark.Claim) bool) {
	f.Proved = slices.DeleteFunc(f.Proved, func(m Object) bool { return !is(m.claim) })
}

// Downstream lists the objects of a rule, and those that have its labels. It lists only metadata, since there may be many objects. With
// the record of generated objects it also finds objects whose labels and marks were removed.
func (w *Worker) Downstream(ctx context.Context, p *policy.Program, r *policy.Rule, which Which) (out Found, err error) {
	set := which.labels(LabelsOfRule(p, r.Name))
	kinds, err := w.kindsOf(p, r)
	if err != nil {
		return Found{}, err
	}
	add := func(u *unstructured.Unstructured) error {
		switch c, ok, err := w.Claim(ctx, u); {
		case err != nil:
			return err
		case ok && IsOf(c, p.Identity(), r.Name):
			out.Proved = append(out.Proved, Object{u, c})
		default:
			out.Unproved = append(out.Unproved, u)
		}
		return nil
	}
	var errs []error
	for _, k := range kinds {
		options := &client.ListOptions{Namespace: p.Namespace, LabelSelector: labels.SelectorFromSet(set)}
		var failed error
		err := w.eachMetadata(ctx, k.GroupVersionKind, options, func(o *metav1.PartialObjectMetadata) bool {
			failed = add(identity(k.GroupVersionKind, o))
			return failed == nil
		})
		switch {
		case failed != nil:
			return Found{}, failed
		case err == nil, absent(err):
		case k.guessed && apierrors.IsForbidden(err):
			w.Log.Debug("cannot search for generated objects of a kind that the controller may not list", "policy", p.Key(), "rule", r.Name, "kind", k.Kind)
		default:
			errs = append(errs, err)
		}
	}
	errs = append(errs, w.recorded(ctx, p, r, which, &out))
	return out, errors.Join(errs...)
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

// absent reports whether the kind cannot be listed because it is not served or does not support lists.
func absent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err)
}

// outputKind is a kind that a rule generates. guessed: the kind is a variable, and this is one of the kinds that match.
type outputKind struct {
	schema.GroupVersionKind
	guessed bool
}

// kindsOf returns the kinds that a rule generates. For a kind in a variable it returns all served kinds that match.
func (w *Worker) kindsOf(p *policy.Program, r *policy.Rule) ([]outputKind, error) {
	var out []outputKind
	seen := map[schema.GroupKind]bool{}
	add := func(k outputKind) {
		if !seen[k.GroupKind()] {
			seen[k.GroupKind()] = true
			out = append(out, k)
		}
	}
	for _, g := range r.Grants {
		apiVersion, kind := kindPattern(g)
		switch {
		case g.Source:
		case wildcard.Has(apiVersion+kind) && r.Generation != nil && r.Generation.Watched: // the record holds the kinds
		case !wildcard.Has(apiVersion + kind):
			add(outputKind{schema.FromAPIVersionAndKind(apiVersion, kind), false})
		default:
			found, err := w.Find(target(apiVersion, kind))
			if err != nil {
				return nil, fmt.Errorf("find the kinds that rule %s generates: %w", r.Name, err)
			}
			for _, gvk := range found {
				add(outputKind{gvk, true})
			}
		}
	}
	for _, gvk := range w.Ledger.Kinds(ruleOf(p, r)) {
		add(outputKind{gvk, false})
	}
	return out, nil
}

// target returns the target for patterns of kinds.
func target(apiVersion, kind string) policy.Target {
	group, version, named := strings.Cut(apiVersion, "/")
	switch {
	case apiVersion == "*":
		group, version = "*", "*"
	case !named:
		group, version = "", apiVersion
	}
	return policy.Target{Group: group, Version: version, Kind: kind}
}

// Remove deletes generated objects that have not changed since they were listed.
func (w *Worker) Remove(ctx context.Context, p *policy.Program, objects []Object) error {
	var errs []error
	for _, u := range objects {
		if !p.Reach().Allows(u.GetNamespace()) || u.GetDeletionTimestamp() != nil {
			continue
		}
		uid, version := u.GetUID(), u.GetResourceVersion()
		err := w.Client.Delete(ctx, u.Unstructured, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, wrap(err, "delete "+ObjectText(u.Unstructured)))
			continue
		}
		if err != nil || !lingers(u.Unstructured) {
			w.Ledger.Drop(string(uid)) // otherwise a later check drops the entry
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

// ceased describes why the objects of a trigger are deleted.
type ceased struct {
	// deleted: the trigger does not exist; this is checked again for each trigger that a mark names. Otherwise the trigger exists, and the
	// rule was evaluated for its current state.
	deleted bool
	// before is the state of the trigger when the rule applied; nil if unknown. If the rule generates an unmarked object for this
	// state, the object is older than marks, or has lost its mark.
	before map[string]any
}

// removeFor deletes the objects that a rule generated for a trigger. It leaves objects with labels but without proof unchanged, and reports
// them.
func (w *Worker) removeFor(ctx context.Context, t *task, why ceased) error {
	if t.Trigger.UID == "" {
		return nil // the objects of this trigger cannot be distinguished from those of others
	}
	all, err := w.Downstream(ctx, t.program, t.rule, Which{Trigger: t.Trigger})
	if err != nil {
		return err
	}
	all.Keep(func(c mark.Claim) bool { return isFor(c, t.program.Identity(), t.rule.Name, t.Trigger) })
	if len(all.Unproved) > 0 {
		w.identify(ctx, t, why.before, &all)
	}
	if why.deleted {
		there := map[kyvernov2.ResourceSpec]bool{}
		for _, m := range all.Proved {
			trigger := triggerIn(m.claim)
			if _, looked := there[trigger]; looked {
				continue
			}
			live, err := w.live(ctx, trigger)
			if gone := (goneError{}); err != nil && !asGone(err, &gone) {
				return err
			}
			there[trigger] = err == nil && live.GetDeletionTimestamp() == nil
		}
		all.Keep(func(c mark.Claim) bool { return !there[triggerIn(c)] })
	}
	w.ReportUnproved(t.program, t.rule, all.Unproved...)
	return w.Remove(ctx, t.program, all.Proved)
}

// identify moves objects to the proved ones if the rule generates them for the former state of the trigger.
func (w *Worker) identify(ctx context.Context, t *task, before map[string]any, all *Found) {
	u := &unstructured.Unstructured{Object: before}
	if before == nil || u.GetUID() != t.Trigger.UID {
		return
	}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind))
	made := w.makes(ctx, t.program, t.rule, u)
	all.Unproved = slices.DeleteFunc(all.Unproved, func(x *unstructured.Unstructured) bool {
		if plannedAs(made, x) == nil {
			return false
		}
		c := updaterequest.ClaimOf(t.program.Identity(), t.rule.Name)
		c.Trigger = withUID(u)
		all.Proved = append(all.Proved, Object{x, c})
		return true
	})
}

// TriggersIn returns the distinct triggers of the objects.
func TriggersIn(objects []Object) []kyvernov2.ResourceSpec {
	var out []kyvernov2.ResourceSpec
	seen := map[kyvernov2.ResourceSpec]bool{}
	for _, m := range objects {
		if t := triggerIn(m.claim); !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// TriggersOf returns the distinct triggers in the labels of the objects. Labels are no proof.
func TriggersOf(objects []*unstructured.Unstructured) []kyvernov2.ResourceSpec {
	var out []kyvernov2.ResourceSpec
	seen := map[kyvernov2.ResourceSpec]bool{}
	for _, u := range objects {
		l := u.GetLabels()
		get := func(name string) string { return l[LabelPrefix+name] }
		t := kyvernov2.ResourceSpec{
			APIVersion: schema.GroupVersion{Group: get("trigger-group"), Version: get("trigger-version")}.String(), Kind: get("trigger-kind"),
			Namespace: get("trigger-namespace"), Name: get("trigger-name"), UID: types.UID(get("trigger-uid")),
		}
		if t.Kind != "" && (t.UID != "" || t.Name != "") && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

func ObjectText(u *unstructured.Unstructured) string {
	return updaterequest.Text(kyvernov2.ResourceSpec{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()})
}

// wrapped adds the attempted action to the text of an error. errors.Is and errors.As find the original error.
type wrapped struct {
	error
	attempt string
}

func (w wrapped) Error() string { return w.attempt + ": " + w.error.Error() }
func (w wrapped) Unwrap() error { return w.error }

func wrap(err error, attempt string) error { return wrapped{err, attempt} }
