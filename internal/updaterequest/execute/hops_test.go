package execute

import (
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
)

// The number of the hop is only read from our own writes, so that no other client can name a field manager to make a
// policy skip its object.
func TestHops(t *testing.T) {
	const we = "system:serviceaccount:kyverno:kyverno-background-controller"
	for _, c := range []struct {
		user, options string
		want          int
	}{
		{we, `{"kind":"UpdateOptions","fieldManager":"ephor-hop-4"}`, 4},
		{we, `{"kind":"CreateOptions","fieldManager":"generate"}`, 1},
		{we, `{"kind":"CreateOptions","fieldManager":"ephor-hop--7"}`, 1},
		{we, ``, 1},
		{"jane", `{"kind":"UpdateOptions","fieldManager":"ephor-hop-40"}`, 0},
	} {
		u := &kyvernov2.UpdateRequest{}
		u.Spec.Context.AdmissionRequestInfo.AdmissionRequest = &kyvernov2.AdmissionRequest{
			UserInfo: authenticationv1.UserInfo{Username: c.user}, Options: runtime.RawExtension{Raw: []byte(c.options)},
		}
		x := &reader{account: we}
		if got := x.hops(u); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.user, c.options, got, c.want)
		}
	}
	if got := (&task{hops: 0}).owner("generate"); got != "generate" {
		t.Errorf("the first write is by %s", got)
	}
	if got := (&task{hops: 4}).owner("generate"); got != "ephor-hop-5" {
		t.Errorf("the fifth write in a row is by %s", got)
	}
	if !isHop(errors.Join(hopError{"p", "r"})) {
		t.Error("a hop is not distinguished from other failures")
	}
}
