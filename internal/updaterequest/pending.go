package updaterequest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"

	"ephor.invalid/ephor/internal/listwatch"
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
	var (
		mu       sync.Mutex
		failures []error
		more     string
	)
	for {
		var list kyvernov2.UpdateRequestList
		err := c.List(ctx, &list, client.InNamespace(namespace), client.Limit(pendingPage), client.Continue(more))
		if listwatch.GoesOn(err, &more) {
			continue
		}
		if err != nil {
			if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // the kind is not defined
				return written, nil
			}
			return written, fmt.Errorf("list UpdateRequests: %w", errors.Join(append(failures, err)...))
		}
		slots := make(chan struct{}, pendingWriters)
		var writing sync.WaitGroup
		for i := range list.Items {
			u := &list.Items[i]
			if u.Status.State != "" || u.DeletionTimestamp != nil {
				continue
			}
			slots <- struct{}{}
			writing.Go(func() {
				defer func() { <-slots }()
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
		}
		writing.Wait()
		if more = list.Continue; more == "" || len(failures) > pendingPage {
			return written, errors.Join(failures...)
		}
	}
}
