package vapgen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family/native"
	"ephor.invalid/ephor/internal/policy"
)

// Reconciler creates, updates and deletes generated objects until they are as wanted. It does not change other objects.
type Reconciler struct {
	// Client writes; Reader reads without a cache.
	Client client.Client
	Reader client.Reader
	// Events report what was generated.
	Events event.Recorder
	Log    *slog.Logger
}

// WriteError is the error for an object that could not be written.
type WriteError struct {
	// Binding: the object is a binding.
	Binding bool
	// Exists: the object exists, from an earlier state of the policy.
	Exists bool
	name   string
	err    error
}

func (e *WriteError) Error() string { return "write " + e.name + ": " + e.err.Error() }
func (e *WriteError) Unwrap() error { return e.err }

// Round is the wanted state of one kind of the API server's policies.
type Round struct {
	Native *Native
	// Version is the version to write.
	Version string
	// Want are the objects, by the policies from which they are generated.
	Want map[policy.ID]Output
	// Keep reports whether objects that are generated from a policy stay for now, though they are not wanted; nil for never.
	Keep func(policy.ID) bool
}

// Apply creates, updates and deletes objects until they are as the round wants. failed has the errors by policy; err concerns
// all. unfinished reports that another round has to follow soon: objects stay for now, or another client changed them after Apply had
// read them, such as the API server's controller that writes the status of new policies.
func (r *Reconciler) Apply(ctx context.Context, round Round) (failed map[policy.ID]error, unfinished bool, err error) {
	n := round.Native
	policies, err := r.stored(ctx, round.Version, n.Kind, n.new)
	if err != nil {
		return nil, false, err
	}
	bindings, err := r.stored(ctx, round.Version, n.Binding, n.newBinding)
	if err != nil {
		return nil, false, err
	}
	failed = map[policy.ID]error{}
	for id, o := range round.Want {
		if o.Policy == nil {
			continue
		}
		p, b := policies[o.Policy.GetName()], bindings[o.Binding.GetName()]
		failure := &WriteError{Exists: p != nil, name: o.Policy.GetName(), err: r.write(ctx, &round, o.Policy, p, id.Name, false)}
		if failure.err == nil {
			failure = &WriteError{Binding: true, Exists: b != nil, name: o.Binding.GetName(), err: r.write(ctx, &round, o.Binding, b, id.Name, true)}
		}
		switch {
		case apierrors.IsConflict(failure.err):
			unfinished = true
		case failure.err != nil:
			failed[id] = failure
		}
		// If the API server rejects the objects, those that exist are from an earlier state of the policy, and are removed below.
		rejected := apierrors.IsInvalid(failure.err)
		if !rejected || failure.Binding {
			delete(policies, o.Policy.GetName())
		}
		if !rejected {
			delete(bindings, o.Binding.GetName())
		}
	}
	var errs []error
	remove := func(o client.Object, kind, end string) {
		t := ownerOf(o, end)
		switch {
		case t == nil || t.Native != n:
		case round.Keep != nil && round.Keep(policy.ID{Kind: t.kind, Name: o.GetOwnerReferences()[0].Name}):
			unfinished = true
		default:
			err := r.remove(ctx, o, round.Version, kind)
			if apierrors.IsConflict(err) {
				unfinished, err = true, nil
			}
			errs = append(errs, err)
		}
	}
	for _, b := range bindings {
		remove(b, n.Binding, bindingEnd)
	}
	for _, p := range policies {
		remove(p, n.Kind, "")
	}
	return failed, unfinished, errors.Join(errs...)
}

// stored returns the objects with our label, by name. Every version has the same fields, and the types are those of the first.
func (r *Reconciler) stored(ctx context.Context, version, kind string, made func() client.Object) (map[string]client.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk(version, kind+"List"))
	if err := r.Reader.List(ctx, list, client.MatchingLabels{labelManaged: managedBy}); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind, err)
	}
	out := map[string]client.Object{}
	for i := range list.Items {
		o := made()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, o); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", kind, list.Items[i].GetName(), err)
		}
		out[o.GetName()] = o
	}
	return out, nil
}

// write creates or updates one object. have is the existing object; nil for none.
func (r *Reconciler) write(ctx context.Context, round *Round, want, have client.Object, name string, binding bool) error {
	if have != nil && same(want, have) {
		return nil
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	delete(tree, "status")
	kind, what := round.Native.Kind, ""
	if binding {
		kind, what = round.Native.Binding, " binding"
	}
	o := &unstructured.Unstructured{Object: tree}
	o.SetGroupVersionKind(gvk(round.Version, kind))
	if have == nil {
		err = r.Client.Create(ctx, o)
	} else {
		o.SetResourceVersion(have.GetResourceVersion())
		err = r.Client.Update(ctx, o)
	}
	if err != nil {
		return err
	}
	r.Log.Info("a policy is also one of the API server's", "policy", name, "name", o.GetName())
	if round.Native.Words == "" {
		return nil
	}
	owner := want.GetOwnerReferences()[0]
	r.Events.Record(event.Event{
		Regarding: event.Reference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: string(owner.UID)},
		Related:   event.Reference{APIVersion: native.Group + "/" + round.Version, Kind: kind, Name: o.GetName(), UID: string(o.GetUID())},
		Reason:    event.PolicyApplied, Action: event.ResourceGenerated, Controller: event.GenerateController,
		Note: fmt.Sprintf("successfully generated %s%s %s from policy %s", round.Native.Words, what, o.GetName(), name),
	})
	return nil
}

// remove deletes one object that was generated from a policy.
func (r *Reconciler) remove(ctx context.Context, o client.Object, version, kind string) error {
	uid, at := o.GetUID(), o.GetResourceVersion()
	gone := &unstructured.Unstructured{}
	gone.SetGroupVersionKind(gvk(version, kind))
	gone.SetName(o.GetName())
	err := r.Client.Delete(ctx, gone, client.Preconditions{UID: &uid, ResourceVersion: &at})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	r.Log.Info("a policy is no longer one of the API server's", "name", o.GetName())
	return nil
}
