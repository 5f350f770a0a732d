package status

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// WriteException reports in the status of an exception that it could not be evaluated. It changes no other field, so every replica may write
// it. An exception that was deleted, or whose definition has no status, is not an error.
func (w *Writer) WriteException(ctx context.Context, e *policy.Exception, want *kyvernov1.NotEvaluatedStatus) (written bool, err error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(e.APIVersion)
	object.SetKind(e.Kind)
	object.SetNamespace(e.Namespace)
	object.SetName(e.Name)
	want.Message = value.Message(want.Message)
	return w.patch(ctx, object, "notEvaluated", want)
}

// WriteApproval writes who approved an exception.
func (w *Writer) WriteApproval(ctx context.Context, object *unstructured.Unstructured, want *kyvernov1.ApprovalStatus) (written bool, err error) {
	return w.patch(ctx, object, "approval", want)
}
