package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/devcluster"
)

// Start starts another replica of a component for a test, waits until it is ready, and stops it after the test. The replica has to end on
// SIGTERM, and the end of its log is printed if the test failed.
func (c *Cluster) Start(t testing.TB, component string, args ...string) *devcluster.Replica {
	t.Helper()
	r, err := c.Ephor.Start(t.Context(), component, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && Alive(r) == nil {
			t.Logf("the log of %s ends with:\n%s", r.Name, r.Tail(30))
		}
		Stop(t, r)
	})
	return r
}

// Grace returns the time in which a controller has to end on SIGTERM: 40 seconds on a quiet machine.
func Grace() time.Duration { return devcluster.Patience() * 2 / 9 }

// Stop stops a replica, which has to end on SIGTERM. It ignores a replica that has ended.
func Stop(t testing.TB, r *devcluster.Replica) {
	t.Helper()
	if Alive(r) != nil {
		return
	}
	if err := r.Stop(Grace()); err != nil {
		t.Errorf("%s did not end by itself: %v\n%s", r.Name, err, r.Tail(10))
	}
}

// Alive returns the error with which a replica ended, and nil while it runs.
func Alive(r *devcluster.Replica) error {
	select {
	case <-r.Done():
		return fmt.Errorf("%s ended:\n%s", r.Name, r.Tail(20))
	default:
		return nil
	}
}

// Logged returns the number of lines of a replica's log that contain all the words.
func Logged(r *devcluster.Replica, words ...string) int {
	n := 0
	for line := range strings.Lines(r.Tail(100_000)) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// Says waits until a line of the replica's log contains all the words.
func Says(t testing.TB, r *devcluster.Replica, words ...string) time.Duration {
	t.Helper()
	return Until(t, fmt.Sprintf("%s says %q", r.Name, words), func() error {
		if Logged(r, words...) > 0 {
			return nil
		}
		return fmt.Errorf("its log ends with:\n%s", r.Tail(10))
	})
}

// Holder returns the replica that holds a Lease of Ephor's namespace, or the reason why none does.
func (c *Cluster) Holder(t testing.TB, lease string, among []*devcluster.Replica) (*devcluster.Replica, error) {
	l, err := c.Client.CoordinationV1().Leases(Namespace).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if l.Spec.HolderIdentity == nil {
		return nil, fmt.Errorf("the lease %s has no holder", lease)
	}
	for _, r := range among {
		if r.Name == *l.Spec.HolderIdentity {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s holds the lease %s", *l.Spec.HolderIdentity, lease)
}
