package updaterequest

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
)

// API is the part of the API server that the Writer needs. Errors are those of the API machinery.
type API interface {
	Create(ctx context.Context, u *kyvernov2.UpdateRequest) error
	Get(ctx context.Context, namespace, name string) (*kyvernov2.UpdateRequest, error)
	Update(ctx context.Context, u *kyvernov2.UpdateRequest) error
	// Count returns the number of UpdateRequests in the namespace.
	Count(ctx context.Context, namespace string) (int, error)
}

// NewAPI returns an API that uses the client. The client must read without a cache, and its scheme must contain
// kyverno.io/v2. It should not be throttled, since requests wait for it.
func NewAPI(c client.Client) API { return apiServer{c} }

type apiServer struct{ client client.Client }

func (c apiServer) Create(ctx context.Context, u *kyvernov2.UpdateRequest) error {
	return c.client.Create(ctx, u.DeepCopy()) // Create decodes the answer into its argument
}

func (c apiServer) Get(ctx context.Context, namespace, name string) (*kyvernov2.UpdateRequest, error) {
	u := &kyvernov2.UpdateRequest{}
	return u, c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
}

func (c apiServer) Update(ctx context.Context, u *kyvernov2.UpdateRequest) error {
	return c.client.Update(ctx, u)
}

// Count lists a single object, because the API server then also returns the number of remaining objects.
func (c apiServer) Count(ctx context.Context, namespace string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kyvernov2.GroupVersion.WithKind("UpdateRequestList"))
	if err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}

const (
	// Batch is the number of triggers in one UpdateRequest that was not created for an admission request.
	Batch = 100
	// Attempts is the maximum number of attempts for a write that has conflicts.
	Attempts = 5
)

// ThresholdError means that no UpdateRequest is added because the limit is reached. Its text is constant, so that events with it are
// aggregated.
type ThresholdError struct{ Limit int }

func (e ThresholdError) Error() string {
	return fmt.Sprintf("as many UpdateRequests as updateRequestThreshold allows (%d) wait for execution", e.Limit)
}
