package serving

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/unlock"
	"ephor.invalid/ephor/internal/webhookconf"
)

// emptied is a cluster without webhook configurations, whose main ConfigMap has the annotation; nil for no annotation, or an error.
type emptied struct {
	client.Client
	note    *string
	fails   error
	created int
}

func (e *emptied) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	cm, ok := o.(*corev1.ConfigMap)
	if !ok || e.note == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, key.Name)
	}
	cm.Annotations = map[string]string{unlock.Annotation: *e.note}
	return e.fails
}

func (e *emptied) Create(context.Context, client.Object, ...client.CreateOption) error {
	e.created++
	return nil
}

// The event for the deletion of a configuration arrives before the event for the annotation. The configuration is not created again.
func TestNoteIsReadBeforeConfigurationsAreMade(t *testing.T) {
	text := func(s string) *string { return &s }
	in := func(d time.Duration) *string { return text(time.Now().Add(d).UTC().Format(time.RFC3339)) }
	away := errors.New("the API server is away")
	for name, c := range map[string]struct {
		note    *string
		fails   error
		created int
		want    error
	}{
		"unlocked":                {in(time.Hour), nil, 0, ErrUnlocked},
		"over":                    {in(-time.Hour), nil, 1, nil},
		"taken away":              {text(""), nil, 1, nil},
		"nobody can read it":      {text("tomorrow"), nil, 1, nil},
		"no ConfigMap":            {nil, nil, 1, nil},
		"it cannot be looked for": {text(""), away, 0, away},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &emptied{note: c.note, fails: c.fails}
			r := &webhookconf.Reconciler{
				Client: cluster, Reader: cluster, Live: cluster, Own: true, Log: slog.New(slog.DiscardHandler),
				Hold: HoldUnlocked(cluster, client.ObjectKey{Namespace: "kyverno", Name: "kyverno"}),
			}
			want := webhookconf.Configurations{Validating: []*admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}}
			if _, err := r.Apply(t.Context(), want); !errors.Is(err, c.want) || cluster.created != c.created {
				t.Errorf("%d were made, error %v", cluster.created, err)
			}
		})
	}
}
