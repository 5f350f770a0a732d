package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/webhookconf"
)

// With fixed webhooks, whose content stays as it is stored, those that fail open fail closed again when reviews are answered, also while no
// cleanup controller runs.
func TestFixedWebhooksFailClosedAgain(t *testing.T) {
	ignore := admissionv1.Ignore
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{
			Name: webhookconf.ResourceValidating, Labels: map[string]string{webhookconf.ManagedLabel: webhookconf.ManagedValue},
			Annotations: map[string]string{"ephor.dev/static": "true", failopen.Annotation: `{"webhooks":["validate.kyverno.svc-fail"]}`},
		},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "validate.kyverno.svc-fail", FailurePolicy: &ignore}, {Name: "validate.kyverno.svc-ignore", FailurePolicy: &ignore}},
	}).Build()
	beats := 0
	answered := interceptor.NewClient(c, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
		beats++
		o.SetAnnotations(map[string]string{admission.HeartbeatAnnotation: fmt.Sprint(beats)})
		return nil
	}})
	f := &Reconciler{
		Options: webhookconf.Options{Static: true}, Reader: c, Apply: &webhookconf.Reconciler{Client: c}, Log: slog.New(slog.DiscardHandler),
		Heartbeat: &serving.Heartbeat{Client: answered, Now: time.Now, Log: slog.New(slog.DiscardHandler)},
	}
	stored := &admissionv1.ValidatingWebhookConfiguration{}
	for healthy, want := range []string{"Ignore Ignore true", "Ignore Ignore true", "Fail Ignore false"} {
		if got := f.Heartbeat.Healthy(); got != (healthy == 2) {
			t.Fatal(healthy, got)
		}
		if err := f.keepFailOpen(t.Context(), webhookconf.Configurations{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: webhookconf.ResourceValidating}, stored); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(*stored.Webhooks[0].FailurePolicy, " ", *stored.Webhooks[1].FailurePolicy, " ", failopen.IsOpen(stored)); got != want {
			t.Errorf("after %d heartbeats: %s, want %s", healthy, got, want)
		}
		if _, err := f.Heartbeat.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
