package unlock

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestUntil(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		annotations map[string]string
		want        time.Time
		fails       bool
	}{
		{nil, time.Time{}, false},
		{map[string]string{Annotation: ""}, time.Time{}, false},
		{map[string]string{Annotation: "2026-01-31T12:00:00Z"}, noon, false},
		{map[string]string{Annotation: "2026-01-31T13:00:00+01:00"}, noon, false},
		{map[string]string{Annotation: "yes"}, time.Time{}, true},
		{map[string]string{Annotation: "2026-01-31"}, time.Time{}, true},
	} {
		got, err := Until(c.annotations)
		if !got.Equal(c.want) || (err != nil) != c.fails {
			t.Errorf("%v: %v, %v", c.annotations, got, err)
		}
	}
}

// A restored configuration equals the deleted one, except for fields that the API server sets.
func TestPack(t *testing.T) {
	fail := admissionv1.Fail
	meta := metav1.ObjectMeta{
		Name: "x", UID: "u", ResourceVersion: "7", Generation: 3, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "ou"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}}, CreationTimestamp: metav1.Now(),
	}
	bare := metav1.ObjectMeta{Name: "x", Labels: meta.Labels, Annotations: meta.Annotations, OwnerReferences: meta.OwnerReferences}
	for _, c := range []struct{ key, in, want any }{
		{"validating.x", &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{{Name: "w", FailurePolicy: &fail}}},
			&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: bare, Webhooks: []admissionv1.ValidatingWebhook{{Name: "w", FailurePolicy: &fail}}}},
		{"mutating.x", &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{{Name: "w"}}},
			&admissionv1.MutatingWebhookConfiguration{ObjectMeta: bare, Webhooks: []admissionv1.MutatingWebhook{{Name: "w"}}}},
	} {
		key, data, err := pack(c.in.(client.Object))
		if err != nil || key != c.key {
			t.Fatal(key, err)
		}
		got, err := unpack(key, data)
		if err != nil || !equality.Semantic.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v", err, got)
		}
	}
	for key, data := range map[string]string{"other.x": "", "validating.x": "no gzip"} {
		if _, err := unpack(key, []byte(data)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
