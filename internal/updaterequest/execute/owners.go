package execute

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/updaterequest"
)

// leaveForeignOwners removes ownerReferences to objects in other namespaces. The garbage collector would not find these owners, and would
// delete the object (S10 in docs/security/threat-model.md).
func (w *Worker) leaveForeignOwners(ctx context.Context, t *task, planned *unstructured.Unstructured) error {
	owners := planned.GetOwnerReferences()
	if len(owners) == 0 {
		return nil
	}
	kept := make([]metav1.OwnerReference, 0, len(owners))
	for _, o := range owners {
		ok, err := w.beside(ctx, t, planned.GetNamespace(), o)
		if err != nil {
			return fmt.Errorf("look for the owner %s %s of %s: %w", o.Kind, o.Name, ObjectText(planned), err)
		}
		if ok {
			kept = append(kept, o)
			continue
		}
		w.reportFailure(updaterequest.Controller(t.rule), t, updaterequest.Reference(t.Trigger),
			fmt.Errorf("the owner %s %s (%s) of %s is left out: it is not in the same namespace", o.Kind, o.Name, o.UID, ObjectText(planned)))
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
func (w *Worker) beside(ctx context.Context, t *task, namespace string, o metav1.OwnerReference) (bool, error) {
	if o.UID == t.Trigger.UID && (t.Trigger.Namespace == namespace || t.Trigger.Namespace == "") {
		return true, nil
	}
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	mapping, err := w.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
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
	err = w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, owner)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && owner.UID == o.UID, err
}
