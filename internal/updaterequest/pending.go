package updaterequest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"

	"ephor.invalid/ephor/internal/controller"
)

const (
	// pendingPage is the number of UpdateRequests in a page, since each may hold an object.
	pendingPage = 50
	// pendingWriters is the number of UpdateRequests that are written in parallel.
	pendingWriters = 8
)

// LeavePending writes the state Pending to the UpdateRequests of the namespace that have none, and returns how many it wrote. It skips
// those that another writer changes or deletes meanwhile.
func LeavePending(ctx context.Context, c client.Client, namespace string) (written int, err error) {
	var mu sync.Mutex
	var failures []error
	read := func(ctx context.Context, o metav1.ListOptions) (*kyvernov2.UpdateRequestList, error) {
		list := &kyvernov2.UpdateRequestList{}
		return list, c.List(ctx, list, client.InNamespace(namespace), client.Limit(o.Limit), client.Continue(o.Continue))
	}
	_, err = controller.Pages(ctx, metav1.ListOptions{Limit: pendingPage}, read, func(list *kyvernov2.UpdateRequestList) error {
		Parallel(len(list.Items), pendingWriters, func(i int) {
			u := &list.Items[i]
			if u.Status.State != "" || u.DeletionTimestamp != nil {
				return
			}
			patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":{"state":%q}}`, u.ResourceVersion, kyvernov2.Pending)
			err := c.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, patch))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				written++
			case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
				failures = append(failures, err)
			}
		})
		if len(failures) > pendingPage {
			return controller.ErrEnough
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) { // the kind need not be defined
		failures = append(failures, fmt.Errorf("list UpdateRequests: %w", err))
	}
	return written, errors.Join(failures...)
}
