package controller

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Another program that holds the Lease pauses the work as long as it renews the Lease; our own controllers, and no holder, do not.
func TestStandbyLooks(t *testing.T) {
	paused := false
	s := &otherHolder{lease: "l", pause: func(p bool) { paused = p }, log: quiet}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(holder, marked string, renewed time.Time) *coordinationv1.Lease {
		seconds := int32(12)
		at := metav1.NewMicroTime(renewed)
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
		if marked != "" {
			l.Labels = map[string]string{LeaderLabel: leaderMark(marked)}
		}
		return l
	}
	old := start.Add(-time.Hour) // the holder's clock is different
	for _, step := range []struct {
		what  string
		lease *coordinationv1.Lease
		after time.Duration
		want  bool
		left  time.Duration
	}{
		{"no lease", nil, 0, false, 0},
		{"released", lease("", "", old), 0, false, 0},
		{"Kyverno's", lease("kyverno-1", "", old), 0, true, 12 * time.Second},
		{"not renewed for 11 seconds", lease("kyverno-1", "", old), 11 * time.Second, true, time.Second},
		{"renewed", lease("kyverno-1", "", old.Add(time.Second)), 12 * time.Second, true, 12 * time.Second},
		{"expired", lease("kyverno-1", "", old.Add(time.Second)), 24 * time.Second, false, 0},
		{"ours", lease("ephor-1", "ephor-1", old.Add(2*time.Second)), 25 * time.Second, false, 0},
		{"Kyverno's, behind ours", lease("kyverno-2", "ephor-1", old.Add(3*time.Second)), 26 * time.Second, true, 12 * time.Second},
		{"deleted", nil, 27 * time.Second, false, 0},
	} {
		left := s.look(step.lease, start.Add(step.after))
		if paused != step.want || left != step.left {
			t.Errorf("%s: paused %v, left %v; want %v, %v", step.what, paused, left, step.want, step.left)
		}
	}
}
