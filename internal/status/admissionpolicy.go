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

// WriteAdmissionPolicy stores the part of the status about the generated policy of the API server. It changes no other field. A deleted
// policy is not an error.
func (w *Writer) WriteAdmissionPolicy(ctx context.Context, object *unstructured.Unstructured, part map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": part})
	if err != nil {
		return err
	}
	err = w.Client.Status().Patch(ctx, targetOf(object), client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	return nil
}
