package leftover

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/unlock"
	"ephor.invalid/ephor/internal/webhookconf"
)

var now = time.Unix(100_000, 0)

func meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "kyverno", Labels: labels}
}

func lease(name string, labels map[string]string, renewed time.Duration) *coordinationv1.Lease {
	holder, seconds, at := "pod", int32(15), metav1.NewMicroTime(now.Add(-renewed))
	return &coordinationv1.Lease{ObjectMeta: meta(name, labels), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

func configuration(name, service string) *admissionv1.ValidatingWebhookConfiguration {
	o := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"webhook.kyverno.io/managed-by": "kyverno"}}}
	w := admissionv1.ValidatingWebhook{Name: "w.kyverno.svc"}
	if service == "" {
		url := "https://127.0.0.1/validate"
		w.ClientConfig.URL = &url
	} else {
		w.ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "kyverno", Name: service}
	}
	o.Webhooks = []admissionv1.ValidatingWebhook{w}
	return o
}

func endpoints(service string, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: meta(service+"-1", map[string]string{discoveryv1.LabelServiceName: service}),
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// left returns an installation after Kyverno has taken over: its own objects among those that Ephor created.
func left() []client.Object {
	config := &corev1.ConfigMap{ObjectMeta: meta("kyverno", nil)}
	config.Annotations = map[string]string{"ephor.dev/unlocked-until": "2026-01-31T12:00:00Z", "other": "stays"}
	reports := lease("kyverno-reports-controller", nil, 0)
	reports.Annotations = map[string]string{"ephor.dev/scanned-kinds": "Pod"}
	return []client.Object{
		config, reports,
		&corev1.Secret{ObjectMeta: meta("ephor-webhook-routes", nil)}, &corev1.Secret{ObjectMeta: meta("ephor-generated-marks", nil)},
		&corev1.Secret{ObjectMeta: meta("ephor-of-someone-else", nil)}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ephor-report-seals", Namespace: "default"}},
		&corev1.ConfigMap{ObjectMeta: meta("ephor-generated-3", map[string]string{"ephor.dev/record": "generated"})},
		&corev1.ConfigMap{ObjectMeta: meta("ephor-generated-4", nil)}, &corev1.ConfigMap{ObjectMeta: meta("ephor-generate-rules", nil)},
		lease("ephor-api-servers", nil, 0),
		lease("ephor-background-1", map[string]string{"ephor.dev/ring": "background"}, time.Minute),
		configuration("ephor-resource-validating-webhook-cfg", "kyverno-svc"), configuration("kyverno-resource-validating-webhook-cfg-namespaced-2", "kyverno-svc"), configuration("kyverno-resource-validating-webhook-cfg", "kyverno-svc"),
		configuration("kyverno-old-validating-webhook-cfg", "gone"), configuration("kyverno-starting-validating-webhook-cfg", "starting"),
		configuration("kyverno-outside-validating-webhook-cfg", ""),
		endpoints("kyverno-svc", true), endpoints("starting", false),
	}
}

func installation(objects ...client.Object) *Installation {
	return &Installation{
		Client:    fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build(),
		Namespace: "kyverno", ConfigMap: "kyverno", Now: func() time.Time { return now },
	}
}

func names(items []Item) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = items[i].String()
	}
	return out
}

// List finds what Ephor created, by name, by label, or because no server answers it, and leaves out what Kyverno or a user created.
func TestList(t *testing.T) {
	in := installation(left()...)
	items, err := in.List(t.Context())
	want := []string{
		"ConfigMap/kyverno/ephor-generate-rules", "ConfigMap/kyverno/ephor-generated-3", "annotation ephor.dev/unlocked-until of ConfigMap/kyverno/kyverno",
		"Lease/kyverno/ephor-api-servers", "Lease/kyverno/ephor-background-1", "annotation ephor.dev/scanned-kinds of Lease/kyverno/kyverno-reports-controller",
		"Secret/kyverno/ephor-generated-marks", "Secret/kyverno/ephor-webhook-routes",
		"ValidatingWebhookConfiguration/ephor-resource-validating-webhook-cfg", "ValidatingWebhookConfiguration/kyverno-old-validating-webhook-cfg",
		"ValidatingWebhookConfiguration/kyverno-resource-validating-webhook-cfg-namespaced-2",
		"ValidatingWebhookConfiguration/kyverno-starting-validating-webhook-cfg",
	}
	if err != nil || !slices.Equal(names(items), want) {
		t.Errorf("%v\n%s\nwant\n%s", err, strings.Join(names(items), "\n"), strings.Join(want, "\n"))
	}
	for _, i := range items {
		if i.Why == "" {
			t.Errorf("%s has no reason", i)
		}
	}
}

// The Secrets are all those of package keystore: what holds a key for Ephor is of no use to Kyverno.
func TestEveryKeyIsListed(t *testing.T) {
	keys := []string{
		keystore.Routes, keystore.CleanupRoutes, keystore.Marks, keystore.Reports, keystore.Images, keystore.Exceptions, keystore.Decisions, unlock.SecretName,
	}
	var there []client.Object
	for _, name := range keys {
		there = append(there, &corev1.Secret{ObjectMeta: meta(name, nil)})
	}
	items, err := installation(there...).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range keys {
		if want := "Secret/kyverno/" + name; !slices.Contains(names(items), want) {
			t.Errorf("%s stays", want)
		}
	}
}

// Remove removes exactly the listed items: for annotated objects only the annotation.
func TestRemove(t *testing.T) {
	in := installation(left()...)
	items, err := in.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done, err := in.Remove(t.Context(), items)
	if err != nil || len(done) != len(items) {
		t.Fatalf("removed %d of %d: %v", len(done), len(items), err)
	}
	if again, err := in.List(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("%q is left, %v", names(again), err)
	}
	var config corev1.ConfigMap
	if err := in.Client.Get(t.Context(), client.ObjectKey{Namespace: "kyverno", Name: "kyverno"}, &config); err != nil || config.Annotations["other"] != "stays" {
		t.Errorf("%v, %v", config.Annotations, err)
	}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta("ephor-of-someone-else", nil)}, &corev1.ConfigMap{ObjectMeta: meta("ephor-generated-4", nil)},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kyverno-resource-validating-webhook-cfg"}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kyverno-outside-validating-webhook-cfg"}},
	} {
		if err := in.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
		}
	}
	// An object that is already gone counts as removed.
	if done, err := in.Remove(t.Context(), items[:1]); err != nil || len(done) != 1 {
		t.Errorf("%d, %v", len(done), err)
	}
}

// A replica that shares the work is an error, since it would create everything again.
func TestRunning(t *testing.T) {
	in := installation(append(left(), lease("ephor-background-2", map[string]string{"ephor.dev/ring": "background"}, 5*time.Second))...)
	_, err := in.List(t.Context())
	if running := (*Running)(nil); !errors.As(err, &running) || !slices.Equal(running.Pods, []string{"ephor-background-2"}) {
		t.Errorf("%v", err)
	}
}

// The guide lists what is removed.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating/coming-from-kyverno.md")
	if err != nil {
		t.Fatal(err)
	}
	_, back, ok := strings.Cut(string(page), "## Back to Kyverno")
	if !ok {
		t.Fatal("the guide has no way back")
	}
	removed := []string{webhookconf.ExtraValidating, webhookconf.ExtraMutating, webhookconf.ManagedLabel, ring.Label}
	for _, s := range secrets {
		removed = append(removed, s.name)
	}
	in := installation(left()...)
	items, err := in.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if i.Annotation != "" {
			removed = append(removed, i.Annotation)
		}
	}
	for _, name := range removed {
		if !strings.Contains(back, name) {
			t.Errorf("the guide does not say that %s is removed", name)
		}
	}
}

// A configuration without webhooks belongs to Kyverno while a server answers another one: Kyverno keeps one for mutations, even if no
// policy mutates. Otherwise Ephor left it behind.
func TestWithoutWebhooks(t *testing.T) {
	empty := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kyverno-resource-mutating-webhook-cfg", Labels: map[string]string{"webhook.kyverno.io/managed-by": "kyverno"}},
	}
	for _, c := range []struct {
		answered bool
		want     []string
	}{
		{true, nil},
		{false, []string{"MutatingWebhookConfiguration/kyverno-resource-mutating-webhook-cfg", "ValidatingWebhookConfiguration/kyverno-resource-validating-webhook-cfg"}},
	} {
		in := installation(empty.DeepCopy(), configuration("kyverno-resource-validating-webhook-cfg", "kyverno-svc"), endpoints("kyverno-svc", c.answered))
		if items, err := in.List(t.Context()); err != nil || !slices.Equal(names(items), c.want) {
			t.Errorf("answered %v: %v, %q", c.answered, err, names(items))
		}
	}
}
