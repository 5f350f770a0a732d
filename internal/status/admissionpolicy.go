package status

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteAdmissionPolicy stores whether a ValidatingAdmissionPolicy was made from a policy, and why not, unless the object, as it
// was read, already says so. It touches no other field. A policy that is gone is no error.
func (w *Writer) WriteAdmissionPolicy(ctx context.Context, object *unstructured.Unstructured, generated bool, message string) error {
	have, _, _ := unstructured.NestedMap(object.Object, "status", "validatingadmissionpolicy")
	was, _ := have["generated"].(bool)
	said, _ := have["message"].(string)
	if was == generated && said == message {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"validatingadmissionpolicy": map[string]any{"generated": generated, "message": message},
	}})
	if err != nil {
		return err
	}
	err = w.Client.Status().Patch(ctx, targetOf(object), client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	return nil
}
