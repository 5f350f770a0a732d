package availability

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// leader returns the replica that holds the Lease.
func leader(t *testing.T, lease string, among []*devcluster.Replica) (found *devcluster.Replica) {
	t.Helper()
	suite.Until(t, "a replica leads", func() (err error) {
		found, err = cluster.Holder(t, lease, among)
		if err == nil && suite.Logged(found, "leading", "lease="+lease) == 0 {
			err = fmt.Errorf("%s does not say that it leads", found.Name)
		}
		return err
	})
	return found
}

func others(all []*devcluster.Replica, not *devcluster.Replica) (out []*devcluster.Replica) {
	for _, r := range all {
		if r != not {
			out = append(out, r)
		}
	}
	return out
}

// The Lease has Kyverno's name, holder format and durations, and so has the heartbeat, whose timestamp only our webhook sets.
func TestLeasesLookLikeKyvernos(t *testing.T) {
	r := cluster.StartEnforcing(t, 1)
	leader(t, "kyverno", r)
	l, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), "kyverno", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *l.Spec.HolderIdentity != r[0].Name || *l.Spec.LeaseDurationSeconds != 12 || l.Spec.RenewTime == nil || l.Spec.AcquireTime == nil || l.Spec.LeaseTransitions == nil {
		t.Errorf("%+v", l.Spec)
	}
	suite.Until(t, "the heartbeat is stamped", func() error {
		beat, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), "kyverno-health", metav1.GetOptions{})
		if err != nil {
			return err
		}
		stamp, err := time.Parse(time.RFC3339, beat.Annotations["kyverno.io/last-request-time"])
		if err != nil || time.Since(stamp) > 20*time.Second || beat.Labels["app.kubernetes.io/name"] != "kyverno" || beat.Spec.HolderIdentity != nil {
			return fmt.Errorf("%v, %v, %+v, %v", beat.Annotations, beat.Labels, beat.Spec, err)
		}
		return nil
	})
	suite.Says(t, r[0], "reviews are answered")
}

// After kill -9 of the leader, the other replicas answer reviews, and one of them becomes the leader when the Lease expires.
func TestLeaderKilled(t *testing.T) {
	replicas := cluster.StartEnforcing(t, 2)
	first := leader(t, "kyverno", replicas)
	rest := others(replicas, first)
	first.Kill()
	begin := time.Now()
	suite.Until(t, "the policy is enforced without the leader", func() error { return cluster.Enforced(t.Context()) })
	next := leader(t, "kyverno", rest)
	// The new leader does the work of the leader.
	cluster.Must(t, "", "delete", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg")
	suite.Until(t, "the configuration is back", func() error { return cluster.Enforced(t.Context()) })
	t.Logf("%s followed %s after %s", next.Name, first.Name, time.Since(begin).Round(time.Second))
}

// After SIGTERM the leader releases the Lease, so that no replica waits for its expiry.
func TestLeaderStopped(t *testing.T) {
	replicas := cluster.StartEnforcing(t, 2)
	first := leader(t, "kyverno", replicas)
	finish := load(t, 2)
	if err := first.Stop(suite.Grace()); err != nil {
		t.Errorf("the leader did not end by itself: %v", err)
	}
	l, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), "kyverno", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := l.Spec.HolderIdentity; h != nil && *h == first.Name {
		t.Errorf("the leader has ended and holds the lease: %+v", l.Spec)
	}
	begin := time.Now()
	leader(t, "kyverno", others(replicas, first))
	t.Logf("the next leader came after %s", time.Since(begin).Round(time.Second))
	finish()
}

// If another client takes the Lease, the leader's controllers stop within seconds, but the process does not, and it leads again after the
// Lease expires. Reviews are answered throughout.
func TestLeaseStolen(t *testing.T) {
	r := cluster.StartEnforcing(t, 1)[0]
	leader(t, "kyverno", []*devcluster.Replica{r})
	finish := load(t, 2)
	before := suite.Logged(r, "leading", "lease=kyverno")
	thief := fmt.Sprintf(`{"spec":{"holderIdentity":"thief","leaseDurationSeconds":12,"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	cluster.Must(t, "", "patch", "lease", "kyverno", "-n", namespace, "--type=merge", "-p", thief)
	noticed := suite.Says(t, r, "no longer leading", "thief holds the lease now")
	took := suite.Until(t, "it leads again", func() error {
		if n := suite.Logged(r, "leading", "lease=kyverno"); n < before+2 {
			return fmt.Errorf("%d lines", n)
		}
		return nil
	})
	select {
	case <-r.Done():
		t.Error("the process ended")
	default:
	}
	t.Logf("its controllers stopped after %s, and it led again after %s; %d objects were tried", noticed.Round(time.Second), took.Round(time.Second), finish())
	holder := cluster.Must(t, "", "get", "lease", "kyverno", "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}")
	if strings.TrimSpace(holder) != r.Name {
		t.Errorf("%s holds the lease", holder)
	}
}

// The leader recreates a deleted Lease, and remains the leader.
func TestLeaseDeleted(t *testing.T) {
	r := cluster.StartEnforcing(t, 1)[0]
	leader(t, "kyverno", []*devcluster.Replica{r})
	cluster.Must(t, "", "delete", "lease", "kyverno", "kyverno-health", "-n", namespace)
	suite.Until(t, "the leases are back", func() error {
		for _, name := range []string{"kyverno", "kyverno-health"} {
			if _, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if suite.Logged(r, "no longer leading") > 0 {
		t.Error("it stopped leading")
	}
}
