package execute

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
)

// withRequest gives the worker a cluster with the UpdateRequest and these objects. The returned function reads the UpdateRequest.
func withRequest(t *testing.T, w *Worker, calls interceptor.Funcs, u *kyvernov2.UpdateRequest, objects ...client.Object) func() (*kyvernov2.UpdateRequest, bool) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kyvernov2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	create := calls.Create
	calls.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetCreationTimestamp(metav1.Now()) // as the API server does
		if create != nil {
			return create(ctx, c, o, opts...)
		}
		return c.Create(ctx, o, opts...)
	}
	if u.CreationTimestamp.IsZero() {
		u.CreationTimestamp = metav1.Now()
	}
	w.Namespace, u.Namespace, u.Name, u.UID, u.Generation = "ephor", "ephor", "ur-1", "ur-1", 1
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(w.Client.RESTMapper()).WithObjects(append(objects, u)...).
		WithStatusSubresource(&kyvernov2.UpdateRequest{}).WithInterceptorFuncs(calls).Build()
	renew(w)
	return func() (*kyvernov2.UpdateRequest, bool) {
		t.Helper()
		live := &kyvernov2.UpdateRequest{}
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(u), live)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return live, err == nil
	}
}
