package discovery

import (
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"ephor.invalid/ephor/internal/kubeversion"
)

// Replicas share through a Lease which versions answered when. A time is renewed only when it is old.
func TestSharedVersions(t *testing.T) {
	client := fake.NewClientset()
	s := sharedVersions{client.CoordinationV1().Leases("kyverno")}
	now := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	share := func(v kubeversion.Minor, after time.Duration) map[kubeversion.Minor]time.Time {
		all, err := s.exchange(t.Context(), map[kubeversion.Minor]time.Time{v: now.Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	share(36, 0)
	if all := share(37, time.Second); len(all) != 2 || !all[36].Equal(now) {
		t.Errorf("%v", all)
	}
	writes := len(client.Actions())
	if all := share(37, time.Minute); !all[37].Equal(now.Add(time.Second)) || len(client.Actions()) != writes+1 {
		t.Errorf("%v, %d requests", all, len(client.Actions())-writes)
	}
	if all := share(37, 2*time.Hour); !all[37].Equal(now.Add(2 * time.Hour)) {
		t.Errorf("%v", all)
	}
	if all := share(37, 2*time.Hour+time.Second); len(all) != 1 {
		t.Errorf("an old time is kept: %v", all)
	}
}

// Times that a replica noted while its clock was a day ahead are replaced.
func TestSharedVersionsOfAWrongClock(t *testing.T) {
	s := sharedVersions{fake.NewClientset().CoordinationV1().Leases("kyverno")}
	now := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	ahead, right := map[kubeversion.Minor]time.Time{37: now.Add(24 * time.Hour)}, map[kubeversion.Minor]time.Time{37: now}
	for _, seen := range []map[kubeversion.Minor]time.Time{ahead, right, right} {
		all, err := s.exchange(t.Context(), seen)
		if err != nil || !all[37].Equal(seen[37]) {
			t.Errorf("%v, want %v: %v", all, seen, err)
		}
	}
}
