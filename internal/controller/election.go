package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"ephor.invalid/ephor/internal/names"
)

// Election elects the only process that leads.
type Election struct {
	// Config is the connection to the API server.
	Config           *rest.Config
	Lease, Namespace string
	// Identity is the name of this process, which is the name of its Pod.
	Identity string
	// Retry is the interval of attempts to acquire or renew the lease.
	Retry time.Duration
	Log   *slog.Logger
}

// Run calls lead, with a context that ends when the lease is lost, whenever this process has acquired the lease, until ctx is done. Losing the
// lease never ends the process. Calls of lead never overlap.
func (e *Election) Run(ctx context.Context, lead func(context.Context)) error {
	own := rest.CopyConfig(e.Config)
	own.QPS, own.Burst = -1, 0 // a renewal must not wait behind other requests
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		a := &attempt{Election: e, lead: lead}
		a.ctx, a.cancel = context.WithCancelCause(ctx)
		a.Interface = &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Lease},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
			Labels:     map[string]string{LeaderLabel: leaderMark(e.Identity)},
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: a,
			// A renewal begins one Retry after the last one and fails after the deadline, so lead ends one Retry before another process may
			// lead; attempt.wrote sees to it that a late answer does not postpone this. The elector would release the lease before lead ends,
			// and would wait for an API server that does not answer.
			RetryPeriod:   e.Retry,
			RenewDeadline: 4 * e.Retry,
			LeaseDuration: 6 * e.Retry,
			Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: a.begin, OnStoppedLeading: func() {}},
		})
		if err != nil {
			a.cancel(nil)
			return err
		}
		elector.Run(a.ctx)
		if a.end() {
			a.release()
		}
	}
	return nil
}

// attempt is one attempt to lead and, if it succeeds, the time from acquiring the lease to losing it. It is the lock of the elector, which
// would continue to lead until the renewal deadline when another process holds the lease.
type attempt struct {
	*Election
	resourcelock.Interface
	lead   func(context.Context)
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	leading bool
	over    bool
	late    *time.Timer // ends lead
	running sync.WaitGroup
}

// begin starts lead. The elector calls it in its own goroutine, possibly late.
func (a *attempt) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.leading = true
	a.Log.Info("leading", "lease", a.Lease)
	a.running.Go(func() { a.lead(ctx) })
}

// end waits for lead, and reports whether it was called.
func (a *attempt) end() (led bool) {
	a.mu.Lock()
	led = a.leading
	a.over, a.leading = true, false
	if a.late != nil {
		a.late.Stop()
	}
	a.mu.Unlock()
	cause := context.Cause(a.ctx)
	a.cancel(nil)
	a.running.Wait()
	switch {
	case !led:
	case cause != nil:
		a.Log.Info("no longer leading", "lease", a.Lease, "reason", cause)
	default:
		a.Log.Warn("no longer leading", "lease", a.Lease, "reason", "the lease could not be renewed in time")
	}
	return led
}

// release gives the lease up after lead has ended, so that a successor need not wait until it expires. Failing does no harm.
func (a *attempt) release() {
	ctx, cancel := context.WithTimeout(context.Background(), a.Retry)
	defer cancel()
	record, _, err := a.Interface.Get(ctx)
	if err != nil || record.HolderIdentity != a.Election.Identity {
		return
	}
	now := metav1.Now()
	if err := a.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	}); err != nil {
		a.Log.Info("the lease was not released", "lease", a.Lease, "reason", err)
	}
}

// Get reads the lease, and ends lead at once if another process holds it.
func (a *attempt) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := a.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != a.Election.Identity {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.leading {
			a.cancel(fmt.Errorf("%s holds the lease now", record.HolderIdentity))
		}
	}
	return record, raw, err
}

// Create creates the lease.
func (a *attempt) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return a.wrote(began, a.Interface.Create(ctx, record))
}

// Update writes the lease.
func (a *attempt) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return a.wrote(began, a.Interface.Update(ctx, record))
}

// wrote lets lead end in time unless the lease is written again. The time counts from the beginning of the write: for others, the lease may have
// been renewed long before the answer.
func (a *attempt) wrote(began time.Time, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || a.over {
		return err
	}
	if a.late != nil {
		a.late.Stop()
	}
	a.late = time.AfterFunc(time.Until(began.Add(5*a.Retry)), func() { a.cancel(errors.New("the lease was not renewed in time")) })
	return nil
}

// Identity implements resourcelock.Interface.
func (a *attempt) Identity() string { return a.Election.Identity }

// LeaderLabel on a Lease marks that Ephor wrote its holder. Kyverno's controllers use the same Leases and do not change the label, so it
// then does not match their names.
const LeaderLabel = names.Domain + "leader"

// leaderMark returns the value of LeaderLabel for a holder, whose name may be too long for a label.
func leaderMark(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16])
}
