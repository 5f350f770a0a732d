package execute

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest/ledger"
	"ephor.invalid/ephor/internal/value"
)

// A user who may write a generated object can remove its labels and its mark. The record of generated objects (package ledger) still
// identifies the object by its UID.

// ruleOf returns the name of a rule in the record.
func ruleOf(p *policy.Program, r *policy.Rule) ledger.Rule {
	return ledger.Rule{ID: p.Identity(), Name: r.Name}
}

// note records an object that the task wrote, with its new version and its plan (planOf). It does not record objects that are not
// synchronized, because the worker will not touch them again.
func (w *Worker) note(t *task, u *unstructured.Unstructured, g *policy.Generated, plan string) {
	if t.rule.Generation == nil || !t.rule.Generation.Synchronize {
		return
	}
	e := ledger.Entry{Claim: t.claim(g.Source), Object: withUID(u), Version: u.GetResourceVersion(), FromVersion: g.SourceVersion, Plan: plan}
	if source := g.Source; source != nil {
		e.From = mark.Object{APIVersion: source.APIVersion, Kind: source.Kind, Namespace: source.Namespace, Name: source.Name, UID: source.UID}
	}
	w.Ledger.Note(e)
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
func (w *Worker) upToDate(live *unstructured.Unstructured, plan string) bool {
	e, known := w.Ledger.Object(string(live.GetUID()))
	return known && e.Plan == plan && e.Version == live.GetResourceVersion()
}

// NoteProved records objects that are proved by their marks.
func (w *Worker) NoteProved(r *policy.Rule, objects []Object) {
	if r.Generation == nil || !r.Generation.Synchronize {
		return
	}
	for _, m := range objects {
		if _, known := w.Ledger.Object(string(m.GetUID())); !known && m.GetDeletionTimestamp() == nil {
			w.Ledger.Note(ledger.Entry{Claim: m.claim, Object: withUID(m.Unstructured)})
		}
	}
}

// recorded adds the objects of a rule that are only in the record.
func (w *Worker) recorded(ctx context.Context, p *policy.Program, r *policy.Rule, which Which, found *Found) error {
	var entries []ledger.Entry
	if which.Trigger.UID != "" {
		entries = w.Ledger.OfTrigger(ruleOf(p, r), string(which.Trigger.UID))
	} else {
		entries = w.Ledger.OfRule(ruleOf(p, r))
	}
	seen := make(map[string]bool, len(found.Proved))
	for _, m := range found.Proved {
		seen[string(m.GetUID())] = true
	}
	var errs []error
	for _, e := range entries {
		uid := e.Object.UID
		if seen[uid] || which.Source != "" && e.Source != string(which.Source) {
			continue
		}
		u, err := w.lookUp(ctx, e.Object)
		if err != nil {
			errs = append(errs, err)
		} else if u != nil {
			found.Proved = append(found.Proved, Object{u, e.Claim})
		}
	}
	return errors.Join(errs...)
}

// lookUp reads the object of an entry. If the object was deleted, it returns nil and removes the entry from the record.
func (w *Worker) lookUp(ctx context.Context, of mark.Object) (*unstructured.Unstructured, error) {
	o := &metav1.PartialObjectMetadata{}
	o.APIVersion, o.Kind = of.APIVersion, of.Kind
	gvk := o.GroupVersionKind()
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, o)
	switch {
	case missing(err), err == nil && string(o.UID) != of.UID:
		w.Ledger.Drop(of.UID)
		return nil, nil
	case err != nil && absent(err):
		return nil, nil // the API server does not serve its kind at the moment
	case err != nil:
		return nil, wrap(err, "read "+gvk.Kind+" "+of.Namespace+"/"+of.Name)
	}
	return identity(gvk, o), nil
}
