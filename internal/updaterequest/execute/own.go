package execute

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/updaterequest"
)

// errLeftAlone reports an existing object of the same name that the rule did not make and does not change (Generation.Own).
var errLeftAlone = errors.New("there is another object of the name")

// applyOwn creates or updates one object, unless an existing one of its name was not made by the rule for the trigger.
func (w *Worker) applyOwn(ctx context.Context, t *task, planned *unstructured.Unstructured, g *policy.Generated) error {
	onServer := t.rule.Generation.ServerSideApply
	if !onServer && !t.made {
		if there, err := w.create(ctx, t, planned, g); err != nil || !there {
			return err
		}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(planned.GroupVersionKind())
	switch err := w.Client.Get(ctx, client.ObjectKeyFromObject(planned), live); {
	case apierrors.IsNotFound(err) && onServer:
		return w.applyOnServer(ctx, t, planned, g)
	case apierrors.IsNotFound(err):
		there, err := w.create(ctx, t, planned, g)
		if there {
			err = meanwhile(ObjectText(planned))
		}
		return err
	case err != nil:
		return wrap(err, "read "+ObjectText(planned))
	}
	own, err := w.madeFor(ctx, t, live)
	switch {
	case err != nil:
		return err
	case !own:
		w.Log.Debug("an object that the rule did not make is not changed", "policy", t.program.Key(), "object", ObjectText(live))
		return errLeftAlone
	case onServer:
		return w.applyOnServer(ctx, t, planned, g)
	}
	return w.update(ctx, t, live, planned, g)
}

// madeFor reports whether an existing object counts as made by the rule for the trigger: by its mark, by the record, or without both by its
// labels. Labels are sufficient, since the rule makes exactly this object for this existing trigger: forging them gains no more than
// creating the object would.
func (w *Worker) madeFor(ctx context.Context, t *task, live *unstructured.Unstructured) (bool, error) {
	c, proved, err := w.Claim(ctx, live)
	if err != nil || proved {
		return proved && isFor(c, t.program.Identity(), t.rule.Name, t.Trigger), err
	}
	l := live.GetLabels()
	return l[labelManaged] == managedBy && l[LabelPrefix+"policy-name"] == updaterequest.LabelValue(t.program.Name) &&
		t.Trigger.UID != "" && l[LabelPrefix+"trigger-uid"] == string(t.Trigger.UID), nil
}

// prune deletes the recorded objects of the trigger that the rule no longer makes (Generation.Exact).
func (w *Worker) prune(ctx context.Context, t *task, made []*unstructured.Unstructured) error {
	var stale []Object
	var errs []error
	for _, e := range w.Ledger.OfTrigger(ruleOf(t.program, t.rule), string(t.Trigger.UID)) {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(e.Object.APIVersion)
		object.SetKind(e.Object.Kind)
		object.SetNamespace(e.Object.Namespace)
		object.SetName(e.Object.Name)
		kept := false
		for _, m := range made {
			kept = kept || sameObject(m, object)
		}
		if kept {
			continue
		}
		u, err := w.lookUp(ctx, e.Object)
		switch {
		case err != nil:
			errs = append(errs, err)
		case u != nil:
			stale = append(stale, Object{u, e.Claim})
		}
	}
	if len(stale) > 0 {
		w.Log.Info("objects that a rule no longer makes are deleted", "policy", t.program.Key(), "rule", t.rule.Name, "trigger", updaterequest.Text(t.Trigger), "objects", len(stale))
	}
	return errors.Join(append(errs, w.Remove(ctx, t.program, stale))...)
}
