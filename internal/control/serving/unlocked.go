package serving

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/unlock"
)

// Unlocked follows the annotation on the main ConfigMap with which `ephor unlock` stops the controllers from writing webhook
// configurations.
type Unlocked struct {
	until atomic.Pointer[time.Time]
	Log   *slog.Logger
}

// Load reads the annotation. cm is nil if the ConfigMap was deleted.
func (u *Unlocked) Load(cm *corev1.ConfigMap) {
	var annotations map[string]string
	if cm != nil {
		annotations = cm.Annotations
	}
	until, err := unlock.Until(annotations)
	if err != nil {
		u.Log.Warn("the cluster is not unlocked", "configMap", cm.Name, "mistake", err)
	}
	before := u.until.Swap(&until)
	switch {
	case before != nil && before.Equal(until):
	case time.Until(until) > 0:
		u.Log.Warn("the cluster is unlocked: webhook configurations are not written", "until", until)
	case before != nil && time.Until(*before) > 0:
		u.Log.Info("the cluster is locked again: webhook configurations are written")
	}
}

// left returns how long webhook configurations must not be written; zero if they may be written.
func (u *Unlocked) left() time.Duration {
	until := u.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

// ErrUnlocked stops a write if the annotation is set but its event has not arrived yet.
var ErrUnlocked = errors.New("the cluster is unlocked")

// HoldUnlocked returns a function that reads the annotation from the API server. `ephor unlock` writes the annotation and then deletes
// the configurations, but the event of the deletion may arrive first.
func HoldUnlocked(live client.Reader, configMap client.ObjectKey) func(context.Context) error {
	return func(ctx context.Context) error {
		cm := &corev1.ConfigMap{}
		if err := live.Get(ctx, configMap, cm); err != nil {
			return client.IgnoreNotFound(err)
		}
		if until, err := unlock.Until(cm.Annotations); err == nil && time.Until(until) > 0 {
			return ErrUnlocked
		}
		return nil // an unreadable annotation is ignored
	}
}
