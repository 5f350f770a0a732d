package status

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// WriteScan stores in a policy's status which parts scans skip, nil for none, unless the given object already has it. It changes no
// other field, since the others belong to the admission controller. A deleted policy is not an error.
func (w *Writer) WriteScan(ctx context.Context, object *unstructured.Unstructured, want *kyvernov1.BackgroundScanStatus) (written bool, err error) {
	if !w.extended(object) {
		return false, nil
	}
	have, found, _ := unstructured.NestedMap(object.Object, "status", "backgroundScan")
	if want == nil && !found {
		return false, nil
	}
	var tree any
	if want != nil {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
		if err != nil {
			return false, err
		}
		if equality.Semantic.DeepEqual(have, fields) {
			return false, nil
		}
		tree = fields
	}
	return w.patch(ctx, object, "backgroundScan", tree)
}

// patch writes one field of the status, and reports whether it did. A deleted object needs no status.
func (w *Writer) patch(ctx context.Context, object *unstructured.Unstructured, field string, content any) (bool, error) {
	return w.patchWith(ctx, object, map[string]any{"status": map[string]any{field: content}})
}

// patchVersion is patch for the version of the object that was read. If the object was changed since, it writes nothing.
func (w *Writer) patchVersion(ctx context.Context, object *unstructured.Unstructured, field string, content any) (bool, error) {
	return w.patchWith(ctx, object, map[string]any{"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()}, "status": map[string]any{field: content}})
}

func (w *Writer) patchWith(ctx context.Context, object *unstructured.Unstructured, content map[string]any) (bool, error) {
	patch, err := json.Marshal(content)
	if err != nil {
		return false, err
	}
	err = w.Client.Status().Patch(ctx, targetOf(object), client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write the status of %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	return true, nil
}

// targetOf returns the object to patch.
func targetOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(object.GroupVersionKind())
	target.SetNamespace(object.GetNamespace())
	target.SetName(object.GetName())
	return target
}
