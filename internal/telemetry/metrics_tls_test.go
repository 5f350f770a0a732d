package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/certs"
)

// A stored certificate that is still valid is served although its renewal fails, such as for want of a right.
func TestServedAlthoughNotRenewed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no right to update the Secret")
	stored := fake.NewClientBuilder().WithScheme(scheme).Build()
	c := interceptor.NewClient(stored, interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refused },
	})
	now := time.Now().Add(-140 * 24 * time.Hour) // ten days before the end of the first certificate
	issue := &certs.Reconciler{
		Config: certs.Config{Namespace: "kyverno", CASecret: "ca", TLSSecret: "tls", Algorithm: certs.ECDSA, RenewBefore: 15 * 24 * time.Hour, Names: certs.ServiceNames("s", "kyverno", "")},
		Client: c, Reader: c, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}
	if _, err := issue.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = time.Now()
	keeper := &certs.Keeper{}
	_, err := renewAndLoad(t.Context(), issue, keeper)
	if !errors.Is(err, refused) {
		t.Errorf("the failure is not reported: %v", err)
	}
	if err := keeper.Verify(now); err != nil {
		t.Errorf("the stored certificate is not served: %v", err)
	}
}
