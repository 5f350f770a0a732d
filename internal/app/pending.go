package app

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/updaterequest"
)

// pendingPatience limits the time for the last writes of a process, because the kubelet waits for them.
const pendingPatience = 10 * time.Second

// leavePending sets the state Pending on the UpdateRequests that this process leaves behind. Ephor's controllers do not need the state,
// but Kyverno's controllers execute only requests that have it.
func leavePending(b *base, e env, log *slog.Logger) {
	scheme := runtime.NewScheme()
	if err := kyvernov2.AddToScheme(scheme); err != nil {
		log.Error("UpdateRequests are left without a state", "error", err)
		return
	}
	c, err := client.New(b.cfg, client.Options{Scheme: scheme})
	if err != nil {
		log.Warn("UpdateRequests are left without a state, which Kyverno's controllers need", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pendingPatience)
	defer cancel()
	n, err := updaterequest.LeavePending(ctx, c, e.namespace)
	switch {
	case err != nil:
		log.Warn("UpdateRequests are left without a state, which Kyverno's controllers need", "written", n, "error", err)
	case n > 0:
		log.Info("UpdateRequests are left with the state Pending", "written", n)
	}
}
