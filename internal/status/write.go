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

// WriteAdmissionPolicy stores the part of the status about the generated policy of the API server, and reports whether it did. It changes no
// other field. A deleted policy is not an error.
func (w *Writer) WriteAdmissionPolicy(ctx context.Context, object *unstructured.Unstructured, part map[string]any) (written bool, err error) {
	return Patch(ctx, w.Client, object, nil, part)
}

// write replaces the status, unless the given object already has it.
func (w *Writer) write(ctx context.Context, object *unstructured.Unstructured, tree map[string]any) (written bool, err error) {
	have, _, _ := unstructured.NestedMap(object.Object, "status")
	if equality.Semantic.DeepEqual(have, tree) {
		return false, nil
	}
	return Patch(ctx, w.Client, object, versionOf(object), replacing(have, tree))
}

// patch writes one field of the status, and reports whether it did. A deleted object needs no status.
func (w *Writer) patch(ctx context.Context, object *unstructured.Unstructured, field string, content any) (written bool, err error) {
	return Patch(ctx, w.Client, object, nil, map[string]any{field: content})
}

// patchVersion is patch for the version of the object that was read. If the object was changed since, it writes nothing.
func (w *Writer) patchVersion(ctx context.Context, object *unstructured.Unstructured, field string, content any) (written bool, err error) {
	return Patch(ctx, w.Client, object, versionOf(object), map[string]any{field: content})
}

func versionOf(object *unstructured.Unstructured) map[string]any {
	return map[string]any{"resourceVersion": object.GetResourceVersion()}
}

// Patch writes fields of the status of an object, and reports whether it did. It keeps all other fields. It writes nothing if the object was
// deleted, or no longer has the resourceVersion in the metadata; nil for any. The API server does not look at a UID there.
func Patch(ctx context.Context, c client.Client, object *unstructured.Unstructured, metadata, status map[string]any) (written bool, err error) {
	content := map[string]any{"status": status}
	if metadata != nil {
		content["metadata"] = metadata
	}
	patch, err := json.Marshal(content)
	if err != nil {
		return false, err
	}
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(object.GroupVersionKind())
	target.SetNamespace(object.GetNamespace())
	target.SetName(object.GetName())
	err = c.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write the status of %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	return true, nil
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
