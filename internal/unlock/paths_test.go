package unlock

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Restored configurations call the paths that each server currently answers.
func TestT1RestoredPaths(t *testing.T) {
	ctx := t.Context()
	c := fake.NewClientBuilder().Build()
	now := map[string]*secretpath.Epoch{}
	for _, name := range []string{keystore.Routes, keystore.CleanupRoutes} {
		ring, err := (&keystore.Store{Client: c, Reader: c, Namespace: "kyverno", Name: name}).Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		now[name] = secretpath.NewEpoch(ring.Current(), "now")
		var secret corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: "kyverno", Name: name}, &secret); err != nil {
			t.Fatal(err)
		}
		secret.Annotations = map[string]string{secretpath.EpochsAnnotation: secretpath.Epochs{}.Begin("now", time.Now()).String()}
		if err := c.Update(ctx, &secret); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := (&keystore.Store{Client: c, Reader: c, Namespace: "elsewhere", Name: keystore.Routes}).Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	then := secretpath.NewEpoch(ring.Current(), "then")
	kept := func(name string, paths ...string) client.Object {
		o := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{webhookconf.ManagedLabel: webhookconf.ManagedValue},
		}}
		for _, p := range paths {
			o.Webhooks = append(o.Webhooks, admissionv1.ValidatingWebhook{ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Path: &p}}})
		}
		return o
	}
	installation := &Installation{Client: c, Namespace: "kyverno", ConfigMap: "kyverno", Now: time.Now}
	if err := installation.storeConfigurations(ctx, []client.Object{
		kept(webhookconf.ResourceValidating, then.Path("/validate/fail"), "/validate/ignore"), kept(webhookconf.CleanupValidating, then.Path("/validate")),
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := installation.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		webhookconf.ResourceValidating: {now[keystore.Routes].Path("/validate/fail"), "/validate/ignore"},
		webhookconf.CleanupValidating:  {now[keystore.CleanupRoutes].Path("/validate")},
	} {
		var got admissionv1.ValidatingWebhookConfiguration
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &got); err != nil {
			t.Fatal(err)
		}
		for i, w := range got.Webhooks {
			if *w.ClientConfig.Service.Path != want[i] {
				t.Errorf("%s: %s, want %s", name, *w.ClientConfig.Service.Path, want[i])
			}
		}
	}
}
