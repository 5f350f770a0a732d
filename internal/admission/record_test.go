package admission

import (
	"sync"
	"testing"
	"time"

	"github.com/ephor-dev/ephor/internal/decision"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Each review that policies answered is recorded once, with the results of the auditing rules, whatever the answer.
func TestRecords(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"), validatingPolicy("audit", "[Audit]", needsTeam))
	var mu sync.Mutex
	var got []decision.Review
	srv.Record = func(r decision.Review) { mu.Lock(); got = append(got, r); mu.Unlock() }
	wait := func(n int) decision.Review {
		t.Helper()
		for range 6000 {
			mu.Lock()
			have := len(got)
			mu.Unlock()
			if have == n {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(got) != n {
			t.Fatalf("%d records, want %d", len(got), n)
		}
		return got[n-1]
	}
	ask(t, srv, "/validate/fail", configMap(""))
	if r := wait(1); r.Allowed || r.Message == "" || r.Webhook != validatingWebhook || len(r.Results) != 1 || r.Results[0].Status != policy.StatusFail {
		t.Errorf("%+v", r)
	}
	ask(t, srv, "/vpol/audit", configMap(""))
	if r := wait(2); !r.Allowed || len(r.Results) != 1 || r.Results[0].Status != policy.StatusFail || r.Request.UID == "" || r.Policies == [16]byte{} {
		t.Errorf("%+v", r)
	}
	ask(t, srv, "/validate/fail", configMap(team))
	if r := wait(3); !r.Allowed || len(r.Results) != 1 || r.Results[0].Status != policy.StatusPass {
		t.Errorf("%+v", r)
	}
	ask(t, srv, "/policyvalidate", reviewOf(t, "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: []}}", "", "jane"))
	wait(3)
}
