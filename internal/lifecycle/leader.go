package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Leader runs tasks in the only process that holds a lease.
type Leader struct {
	// Config is the connection to the API server.
	Config           *rest.Config
	Lease, Namespace string
	// Identity is the name of this process, which is the name of its Pod.
	Identity string
	// Retry is the interval of attempts to acquire or renew the lease.
	Retry time.Duration
	Tasks []Task
	Log   *slog.Logger
}

// Run runs the tasks while this process holds the lease, until ctx is done. Losing the lease stops the tasks, never the process; they start
// again when the process acquires it again. Tasks of two terms never overlap.
func (l *Leader) Run(ctx context.Context) error {
	own := rest.CopyConfig(l.Config)
	own.QPS, own.Burst = -1, 0 // a renewal must not wait behind other requests
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		t := newTerm(ctx, l.Lease, l.Identity, l.Tasks, l.Log)
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Lease},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
			Labels:     map[string]string{LeaderLabel: leaderMark(l.Identity)},
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &watchedLock{term: t, Interface: lock},
			// A renewal begins one Retry after the last one and fails after the deadline, so tasks end one Retry before another process may
			// lead. The elector would release the lease before it ends the tasks, and would wait for an API server that does not answer.
			RetryPeriod:   l.Retry,
			RenewDeadline: 4 * l.Retry,
			LeaseDuration: 6 * l.Retry,
			Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: t.begin, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return err
		}
		elector.Run(t.ctx)
		if t.end() {
			l.release(lock)
		}
	}
	return nil
}

// release gives the lease up after the tasks have ended, so that a successor need not wait until it expires. Failing does no harm.
func (l *Leader) release(lock *resourcelock.LeaseLock) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Retry)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != l.Identity {
		return
	}
	now := metav1.Now()
	if err := lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	}); err != nil {
		l.Log.Info("the lease was not released", "lease", l.Lease, "reason", err)
	}
}

// term is one attempt to lead and, if it succeeds, the time from acquiring the lease to losing it.
type term struct {
	ctx             context.Context
	cancel          context.CancelCauseFunc
	lease, identity string
	tasks           []Task
	log             *slog.Logger

	mu      sync.Mutex
	leading bool
	over    bool
	running sync.WaitGroup
}

func newTerm(ctx context.Context, lease, identity string, tasks []Task, log *slog.Logger) *term {
	t := &term{lease: lease, identity: identity, tasks: tasks, log: log}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// begin starts the tasks. The elector calls it in its own goroutine, possibly late.
func (t *term) begin(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.leading = true
	t.log.Info("leading", "lease", t.lease)
	for _, task := range t.tasks {
		t.running.Go(func() { task.Run(ctx, t.log) })
	}
}

// end waits for the tasks, and reports whether there were any.
func (t *term) end() (led bool) {
	t.mu.Lock()
	led = t.leading
	t.over, t.leading = true, false
	t.mu.Unlock()
	cause := context.Cause(t.ctx)
	t.cancel(nil)
	t.running.Wait()
	switch {
	case !led:
	case cause != nil:
		t.log.Info("no longer leading", "lease", t.lease, "reason", cause)
	default:
		t.log.Warn("no longer leading", "lease", t.lease, "reason", "the lease could not be renewed in time")
	}
	return led
}

// taken ends the term at once, because another process holds the lease.
func (t *term) taken(holder string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leading {
		t.cancel(fmt.Errorf("%s holds the lease now", holder))
	}
}

// watchedLock notifies the term when it reads another holder. The elector alone would continue to lead until the renewal deadline, at the
// same time as the new holder.
type watchedLock struct {
	resourcelock.Interface
	term *term
}

func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.term.identity {
		l.term.taken(record.HolderIdentity)
	}
	return record, raw, err
}
