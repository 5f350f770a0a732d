package status

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

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
