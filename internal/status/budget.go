package status

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/value"
)

// BudgetEvery is the minimum time between two reports that the same policy exceeds its budget.
const BudgetEvery = 5 * time.Minute

// WriteBudget reports in the status of a policy that it exceeded its budget, unless the given object already has a report younger than
// BudgetEvery. It changes no other field, so every replica may write it. A deleted policy is not an error. For a policy whose status has
// no such field, it stores nothing and returns true.
func (w *Writer) WriteBudget(ctx context.Context, object *unstructured.Unstructured, want *kyvernov1.BudgetStatus) (written bool, err error) {
	if !w.extended(object) {
		return true, nil // the caller logs it
	}
	have := statusPart[kyvernov1.BudgetStatus](object, "budget")
	if have != nil && have.ObservedGeneration == want.ObservedGeneration && want.ExceededAt.Sub(have.ExceededAt.Time).Abs() < BudgetEvery {
		return false, nil
	}
	want.Message = value.Message(want.Message)
	return w.patch(ctx, object, "budget", want)
}
