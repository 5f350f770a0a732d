package failopen

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/webhookconf"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func validating(name string, hooks ...string) *admissionv1.ValidatingWebhookConfiguration {
	o := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": "b"}}}
	for _, h := range hooks {
		policy := admissionv1.Fail
		if strings.HasSuffix(h, "ignore") {
			policy = admissionv1.Ignore
		}
		o.Webhooks = append(o.Webhooks, admissionv1.ValidatingWebhook{Name: h, FailurePolicy: &policy})
	}
	return o
}

func failing(o client.Object) []string {
	var out []string
	names, at := policies(o)
	for i, p := range at {
		if **p == admissionv1.Fail {
			out = append(out, names[i])
		}
	}
	return out
}

// FailClosed restores exactly the state before failOpen, also after two calls of failOpen.
func TestFailOpenAndBack(t *testing.T) {
	o := validating(webhookconf.ResourceValidating, "x-fail", "y-ignore")
	before := o.DeepCopy()
	if !failOpen(o, noon) || failOpen(o, noon) || len(failing(o)) != 0 || !IsOpen(o) {
		t.Fatalf("%+v", o)
	}
	fail := admissionv1.Fail
	o.Webhooks = append(o.Webhooks, admissionv1.ValidatingWebhook{Name: "z-fail", FailurePolicy: &fail})
	if !failOpen(o, noon.Add(time.Hour)) || !strings.Contains(o.Annotations[Annotation], noon.Format(time.RFC3339)) {
		t.Fatalf("%+v", o.Annotations)
	}
	if !FailClosed(o) || FailClosed(o) || !slices.Equal(failing(o), []string{"x-fail", "z-fail"}) {
		t.Fatalf("%v", failing(o))
	}
	o.Webhooks = o.Webhooks[:2]
	if !equality.Semantic.DeepEqual(o, before) {
		t.Errorf("%+v, want %+v", o, before)
	}
	m := &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{Name: "m", FailurePolicy: &fail}, {Name: "default"}}}
	if !failOpen(m, noon) || **policiesOf(m)[1] != admissionv1.Ignore || !FailClosed(m) || len(failing(m)) != 2 {
		t.Errorf("%+v", m)
	}
}

func policiesOf(o client.Object) []**admissionv1.FailurePolicyType {
	_, at := policies(o)
	return at
}

// The owner of a configuration keeps it open, and writes nothing if nothing else changed.
func TestPreserve(t *testing.T) {
	stored, want := validating(webhookconf.ResourceValidating, "x-fail"), validating(webhookconf.ResourceValidating, "x-fail")
	Preserve(stored, want)
	if IsOpen(want) || len(failing(want)) != 1 {
		t.Fatal("a configuration that fails closed was opened")
	}
	failOpen(stored, noon)
	Preserve(stored, want)
	if !equality.Semantic.DeepEqual(stored, want) {
		t.Errorf("%+v, want %+v", want, stored)
	}
	// A webhook that is added meanwhile fails open, too, and is restored with the others.
	want = validating(webhookconf.ResourceValidating, "x-fail", "new-fail")
	Preserve(stored, want)
	if len(failing(want)) != 0 || !FailClosed(want) || len(failing(want)) != 2 {
		t.Errorf("%v", failing(want))
	}
	// Reviews of policies are not affected.
	stored, want = validating(webhookconf.PolicyValidating, "p-fail"), validating(webhookconf.PolicyValidating, "p-fail")
	failOpen(stored, noon)
	if Preserve(stored, want); IsOpen(want) || concerns(stored) {
		t.Error("the review of policies was opened")
	}
}

func TestHeartbeatVerdicts(t *testing.T) {
	type look struct {
		after time.Duration // since the previous check
		stamp string
		want  verdict
	}
	s := time.Second
	for name, looks := range map[string][]look{
		"a stamp that moves":                    {{0, "1", unknown}, {5 * s, "1", unknown}, {5 * s, "2", answered}, {5 * s, "2", answered}, {5 * s, "3", answered}},
		"a stamp that stands still":             {{0, "1", unknown}, {5 * s, "1", unknown}, {5 * s, "1", unknown}, {10 * s, "1", unknown}, {10 * s, "1", silent}, {5 * s, "1", silent}, {5 * s, "2", answered}},
		"no lease":                              {{0, "", unknown}, {10 * s, "", unknown}, {10 * s, "", unknown}, {10 * s, "", silent}},
		"a pause of ours does not count":        {{0, "1", unknown}, {10 * s, "1", unknown}, {time.Hour, "1", unknown}, {15 * s, "1", unknown}, {15 * s, "1", silent}},
		"a pause of ours tells nothing either":  {{0, "1", unknown}, {time.Hour, "2", unknown}, {5 * s, "2", unknown}},
		"silence after answers, then an answer": {{0, "1", unknown}, {5 * s, "2", answered}, {15 * s, "2", answered}, {15 * s, "2", silent}, {5 * s, "3", answered}},
	} {
		t.Run(name, func(t *testing.T) {
			w, now := &Watch{Grace: MinGrace}, noon
			for i, l := range looks {
				now = now.Add(l.after)
				if got, age := w.look(l.stamp, now); got != l.want {
					t.Errorf("look %d: %s after %s, want %s", i, got, age, l.want)
				}
			}
		})
	}
}

// While there is no webhook of resources, as in an unlocked cluster, no review is answered. The measurement begins when there is one.
func TestSilenceWithoutWebhooks(t *testing.T) {
	now := noon
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kyverno", Name: "health", Annotations: map[string]string{"stamp": "1"}}}
	c := fake.NewClientBuilder().WithObjects(lease).Build()
	w := &Watch{Client: c, Live: c, Lease: client.ObjectKeyFromObject(lease), Annotation: "stamp", Grace: MinGrace, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			next, err := w.Once(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(next)
		}
	}
	pass(time.Hour)
	o := validating(webhookconf.ResourceValidating, "x-fail")
	o.Labels = map[string]string{webhookconf.ManagedLabel: webhookconf.ManagedValue}
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		d    time.Duration
		open bool
	}{{MinGrace / 2, false}, {MinGrace, true}} {
		pass(step.d)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || IsOpen(o) != step.open {
			t.Errorf("after %s: open %v, want %v (%v)", step.d, IsOpen(o), step.open, err)
		}
	}
}
