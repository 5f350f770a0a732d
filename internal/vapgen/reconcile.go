package vapgen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/event"
)

// Reconciler makes what policies become be there, and nothing else of ours.
type Reconciler struct {
	// Client writes, Reader reads without a cache; their scheme knows admissionregistration.k8s.io/v1.
	Client client.Client
	Reader client.Reader
	// Events report what was generated.
	Events event.Recorder
	Log    *slog.Logger
}

// object is a ValidatingAdmissionPolicy or a binding.
type object interface {
	client.Object
	comparable
}

// Apply creates, updates and deletes until what is there are the objects of out, which are by name of the ClusterPolicy. The
// errors are by name, too; the last one concerns all.
func (r *Reconciler) Apply(ctx context.Context, out map[string]Output) (failed map[string]error, err error) {
	policies, bindings := &admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}
	ours := client.MatchingLabels{labelManaged: managedBy}
	if err := errors.Join(r.Reader.List(ctx, policies, ours), r.Reader.List(ctx, bindings, ours)); err != nil {
		return nil, fmt.Errorf("list the ValidatingAdmissionPolicies: %w", err)
	}
	failed = map[string]error{}
	havePolicies, haveBindings := map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}, map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for i := range policies.Items {
		havePolicies[policies.Items[i].Name] = &policies.Items[i]
	}
	for i := range bindings.Items {
		haveBindings[bindings.Items[i].Name] = &bindings.Items[i]
	}
	for name, o := range out {
		if o.Policy == nil {
			continue
		}
		p, b := havePolicies[o.Policy.Name], haveBindings[o.Binding.Name]
		delete(havePolicies, o.Policy.Name)
		delete(haveBindings, o.Binding.Name)
		err := write(ctx, r, o.Policy, p, p != nil && sameMeta(p, o.Policy) && samePolicy(o.Policy, p), name, "")
		if err == nil {
			err = write(ctx, r, o.Binding, b, b != nil && sameMeta(b, o.Binding) && sameBinding(o.Binding, b), name, " binding")
		}
		if err != nil {
			failed[name] = err
		}
	}
	var errs []error
	for _, b := range haveBindings {
		errs = append(errs, r.remove(ctx, b))
	}
	for _, p := range havePolicies {
		errs = append(errs, r.remove(ctx, p))
	}
	return failed, errors.Join(errs...)
}

// sameMeta compares what we say of an object besides its spec.
func sameMeta(have, want client.Object) bool {
	for _, l := range []string{labelManaged, ephemeral.DisabledLabel} {
		h, there := have.GetLabels()[l]
		if w, wanted := want.GetLabels()[l]; h != w || there != wanted {
			return false
		}
	}
	return equality.Semantic.DeepEqual(have.GetOwnerReferences(), want.GetOwnerReferences())
}

// samePolicy compares a policy with the one that is there, to which the API server has added its defaults.
func samePolicy(want, have *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	w := want.Spec.DeepCopy()
	if m := w.MatchConstraints; m != nil {
		if m.MatchPolicy == nil {
			m.MatchPolicy = ptr.To(admissionregistrationv1.Equivalent)
		}
		if m.NamespaceSelector == nil {
			m.NamespaceSelector = &metav1.LabelSelector{}
		}
		if m.ObjectSelector == nil {
			m.ObjectSelector = &metav1.LabelSelector{}
		}
	}
	return equality.Semantic.DeepEqual(*w, have.Spec)
}

// sameBinding is samePolicy for bindings.
func sameBinding(want, have *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	w := want.Spec.DeepCopy()
	if p := w.ParamRef; p != nil && have.Spec.ParamRef != nil && p.ParameterNotFoundAction == nil {
		p.ParameterNotFoundAction = have.Spec.ParamRef.ParameterNotFoundAction
	}
	return equality.Semantic.DeepEqual(*w, have.Spec)
}

// write makes one object be there.
func write[T object](ctx context.Context, r *Reconciler, want, have T, same bool, policy, what string) error {
	var none T
	var err error
	switch {
	case same:
		return nil
	case have == none:
		err = r.Client.Create(ctx, want)
	default:
		want.SetResourceVersion(have.GetResourceVersion())
		err = r.Client.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", want.GetName(), err)
	}
	r.Log.Info("a policy is also one of the API server's", "policy", policy, "name", want.GetName())
	owner := want.GetOwnerReferences()[0]
	kind := "ValidatingAdmissionPolicy"
	if what != "" {
		kind += "Binding"
	}
	r.Events.Record(event.Event{
		Regarding: event.Reference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: string(owner.UID)},
		Related:   event.Reference{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind, Name: want.GetName(), UID: string(want.GetUID())},
		Reason:    event.PolicyApplied, Action: event.ResourceGenerated, Controller: event.GenerateController,
		Note: fmt.Sprintf("successfully generated validating admission policy%s %s from policy %s", what, want.GetName(), policy),
	})
	return nil
}

// remove deletes one object that a policy made: it has our label, and a ClusterPolicy for an owner.
func (r *Reconciler) remove(ctx context.Context, o client.Object) error {
	owners := o.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "ClusterPolicy" {
		return nil
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	r.Log.Info("a policy is no longer one of the API server's", "name", o.GetName())
	return nil
}
