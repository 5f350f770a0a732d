package serving

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// While the cache stays behind, as after an outage of the API server, the configurations are not written ten times a second.
func TestRoundsWhileTheCacheIsBehind(t *testing.T) {
	p := &Paths{now: time.Now, behind: conflictPause, log: slog.New(slog.DiscardHandler)}
	u := &Unlocked{Log: p.log}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "a", errors.New("the cache is behind"))
	round := func(err error) time.Duration {
		again, failed := p.Round(t.Context(), u, func(context.Context, func(string) string) (bool, time.Duration, error) { return err == nil, 0, err })
		if failed != nil {
			t.Fatal(failed)
		}
		return again
	}
	var spent time.Duration
	writes := 0
	for ; spent < time.Minute; spent += round(conflict) {
		writes++
	}
	if writes > 20 {
		t.Errorf("%d writes in a minute, want at most 20", writes)
	}
	if round(nil); round(conflict) != RetryConflict {
		t.Error("after a round that worked, the first pause is not the shortest")
	}
}

// deployment answers with a Deployment that is in the middle of a rollout, or not.
type deployment struct {
	client.Reader
	rolling bool
}

func (d *deployment) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	status := map[string]any{"replicas": int64(3), "updatedReplicas": int64(3)}
	if d.rolling {
		status["updatedReplicas"] = int64(1)
	}
	o.(*unstructured.Unstructured).Object = map[string]any{"status": status}
	return nil
}

// Each rollout has its ten minutes with plain paths: one that begins long after another, while the same process leads, has them, too.
func TestPlainPathsOfALaterRollout(t *testing.T) {
	now, api := time.Now(), &deployment{rolling: true}
	key, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	p := &Paths{
		on: true, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler), store: &keystore.Store{Reader: api},
		deployment: client.ObjectKey{Namespace: "kyverno", Name: "kyverno-admission-controller"}, rotation: secretpath.Rotation{Period: 24 * time.Hour},
		secret: &corev1.Secret{}, epochs: secretpath.Epochs{Current: secretpath.Mark{ID: "e", Began: now}}, current: secretpath.NewEpoch(key, "e"),
	}
	plain := func(standing bool) bool {
		p.standing = nil
		if standing {
			p.standing = []webhookconf.CalledPath{{Path: "/validate/fail"}}
		}
		w, err := p.before(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return w.path == nil
	}
	if !plain(true) {
		t.Error("the first rollout has no plain paths")
	}
	if now = now.Add(rolloutPatience + time.Minute); plain(true) {
		t.Error("a rollout that does not end keeps the plain paths")
	}
	if api.rolling = false; plain(false) {
		t.Error("paths are plain without a rollout")
	}
	now = now.Add(time.Hour)
	if api.rolling = true; !plain(true) {
		t.Error("a later rollout has no plain paths, so Pods of the earlier version answer none of its requests")
	}
}
