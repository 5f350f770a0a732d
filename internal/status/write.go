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

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/compile"
)

// Writer stores statuses.
type Writer struct {
	Client client.Client
	// Families describes the kinds of policies; nil for Ephor's own.
	Families *compile.Registry
}

// Write stores the status of a policy unless the given object already has it. A policy that was deleted or changed meanwhile is not an
// error: its event causes another write.
func (w *Writer) Write(ctx context.Context, object *unstructured.Unstructured, want map[string]any) (written bool, err error) {
	return w.write(ctx, object, want)
}

// WriteGlobalContext stores the status of a GlobalContextEntry, as Write does.
func (w *Writer) WriteGlobalContext(ctx context.Context, object *unstructured.Unstructured, want kyvernov2.GlobalContextEntryStatus) (written bool, err error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return false, err
	}
	return w.write(ctx, object, tree)
}

func (w *Writer) write(ctx context.Context, object *unstructured.Unstructured, tree map[string]any) (written bool, err error) {
	have, _, _ := unstructured.NestedMap(object.Object, "status")
	if equality.Semantic.DeepEqual(have, tree) {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()},
		"status":   replacing(have, tree),
	})
	if err != nil {
		return false, err
	}
	err = w.Client.Status().Patch(ctx, targetOf(object), client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	}
	return false, fmt.Errorf("write the status of %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
}

// replacing returns the merge patch from have to want. It sets removed fields to null, and keeps fields that it does not name.
func replacing(have, want map[string]any) map[string]any {
	patch := make(map[string]any, len(want))
	for key := range have {
		if _, ok := want[key]; !ok {
			patch[key] = nil
		}
	}
	for key, v := range want {
		patch[key] = v
		if now, ok := v.(map[string]any); ok {
			before, _ := have[key].(map[string]any)
			patch[key] = replacing(before, now)
		}
	}
	return patch
}
