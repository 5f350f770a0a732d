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

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/value"
)

// Writer stores statuses.
type Writer struct{ Client client.Client }

// Write stores the status of a policy unless the object, as it was read, already has it. A policy that is gone or was
// changed in the meantime is no error: it is looked at again when that news arrives.
func (w *Writer) Write(ctx context.Context, object *unstructured.Unstructured, want kyvernov1.PolicyStatus) (written bool, err error) {
	tree, err := treeOf(&want)
	if err != nil {
		return false, err
	}
	return w.write(ctx, object, tree)
}

// treeOf is a status as the API server stores it.
func treeOf(status *kyvernov1.PolicyStatus) (map[string]any, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSON(text)
	if err != nil {
		return nil, err
	}
	tree, _ := v.(map[string]any)
	return tree, nil
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
	// A merge patch keeps what it does not name, so what has gone is named as null.
	for key := range have {
		if _, ok := tree[key]; !ok {
			tree[key] = nil
		}
	}
	if a, ok := tree["autogen"].(map[string]any); ok && a["rules"] == nil {
		a["rules"] = nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()},
		"status":   tree,
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
