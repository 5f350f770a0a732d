package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead runs the tasks while this process holds the lease, until ctx is done. Losing the lease stops the tasks, never
// the process, and they start again when it is won back.
func lead(ctx context.Context, cfg *rest.Config, lease, namespace, identity string, retry time.Duration, tasks []task, log *slog.Logger) error {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = -1, 0 // a renewal must not wait behind other requests
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		RetryPeriod:   retry,
		RenewDeadline: 5 * retry,
		LeaseDuration: 6 * retry,
		// The successor need not wait for the lease to run out. All writes carry resource versions, so that a task
		// which is still ending does no harm.
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) {
				log.Info("leading", "lease", lease)
				var running sync.WaitGroup
				for _, t := range tasks {
					running.Go(func() { t.run(term, log) })
				}
				running.Wait()
			},
			OnStoppedLeading: func() { log.Info("no longer leading", "lease", lease) },
		},
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}
