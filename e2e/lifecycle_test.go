package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\n"
}

// A policy that is changed to Audit admits violations and logs their results.
func TestAuditAdmitsAndRecords(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	eventually(t, func() error {
		if _, ok := refused(second(kubectl(t, configMap("audited"), "create", "--dry-run=server", "-f", "-"))); !ok {
			return errAdmitted
		}
		return nil
	})
	must(t, strings.Replace(suite.RequireTeam, "Enforce", "Audit", 1), "apply", "-f", "-")
	eventually(t, func() error {
		_, err := kubectl(t, configMap("audited"), "create", "-f", "-")
		return err
	})
	t.Cleanup(func() { kubectl(t, "", "delete", "configmap", "audited", "--ignore-not-found") })
	eventually(t, func() error {
		for _, line := range strings.Split(replica.Tail(200), "\n") {
			if strings.Contains(line, "require-team") && strings.Contains(line, "audited") && strings.Contains(line, "the label team is required") {
				return nil
			}
		}
		return errors.New("the log does not hold the audit result:\n" + replica.Tail(10))
	})
}

func second(_ string, err error) error { return err }

// The webhook configurations follow the policies: without policies they have no rules. A round without changes writes nothing.
func TestWebhookConfigurationsFollowThePolicies(t *testing.T) {
	webhooks := func() (kinds []string, resourceVersion string) {
		var cfg struct {
			Metadata struct{ ResourceVersion string }
			Webhooks []struct {
				Name  string
				Rules []struct{ Resources, Operations []string }
			}
		}
		out := must(t, "", "get", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg", "-o", "json")
		if err := json.Unmarshal([]byte(out), &cfg); err != nil {
			t.Fatal(err)
		}
		for _, w := range cfg.Webhooks {
			for _, r := range w.Rules {
				kinds = append(kinds, fmt.Sprint(w.Name, r.Resources, r.Operations))
			}
		}
		return kinds, cfg.Metadata.ResourceVersion
	}
	path := policyFile(t, suite.RequireTeam)
	applyPolicies(t, path)
	want := "validate.kyverno.svc-fail[configmaps] [CONNECT CREATE DELETE UPDATE]"
	var version string
	eventually(t, func() error {
		var got []string
		got, version = webhooks()
		if len(got) != 1 || got[0] != want {
			return fmt.Errorf("rules %q, want %q", got, want)
		}
		return nil
	})
	// A changed label of the policy starts a round, but does not change the rules.
	suite.Round(t, replica, "webhook-controller", func() { must(t, "", "label", "clusterpolicy", "require-team", "touched=yes") })
	if _, now := webhooks(); now != version {
		t.Errorf("the configuration was written again (resourceVersion %s, then %s) although nothing changed", version, now)
	}
	must(t, "", "delete", "-f", path)
	eventually(t, func() error {
		if got, _ := webhooks(); len(got) != 0 {
			return fmt.Errorf("rules %q are left after the last policy went", got)
		}
		return nil
	})
}

// kill -9 under load admits no violating object: with failurePolicy Fail the API server denies requests while the process is down and while
// it restarts.
func TestKillUnderLoadAdmitsNothing(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	eventually(t, func() error {
		if _, ok := refused(second(kubectl(t, configMap("probe"), "create", "--dry-run=server", "-f", "-"))); !ok {
			return errAdmitted
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	var asked, admitted atomic.Int64
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil && i < 2000; i++ {
				name := fmt.Sprintf("violating-%d-%d", worker, i)
				if _, err := cluster.Kubectl(ctx, []byte(configMap(name)), "create", "-f", "-"); err == nil {
					admitted.Add(1)
				}
				asked.Add(1)
			}
		})
	}
	// more waits until further creations were tried.
	more := func(what string) int64 {
		from := asked.Load()
		suite.Until(t, "there is load "+what, func() error {
			if n := asked.Load(); n < from+40 {
				return fmt.Errorf("%d creations were tried", n-from)
			}
			return nil
		})
		return asked.Load()
	}
	before := more("before the outage")
	replica.Kill()
	during := more("during the outage")
	r, err := startReplica(t.Context())
	if err != nil {
		stop()
		wg.Wait()
		t.Fatal(err)
	}
	replica = r
	more("after the outage")
	stop()
	wg.Wait()
	if admitted.Load() > 0 {
		t.Errorf("%d of %d violating objects were admitted", admitted.Load(), asked.Load())
	}
	// The restarted process evaluates requests again.
	_, err = kubectl(t, configMap("after"), "create", "--dry-run=server", "-f", "-")
	if text, ok := refused(err); !ok || !strings.Contains(text, "the label team is required") {
		t.Errorf("after the restart: %v", err)
	}
	t.Logf("%d creations were tried, %d of them while the process was down", asked.Load(), during-before)
}

// After SIGTERM the process drains: no request of the API server fails during a rolling update.
func TestDrainLosesNoRequest(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	old := replica
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	var failures sync.Map
	var wg sync.WaitGroup
	good := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: drained, namespace: default, labels: {team: a}}\n"
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := cluster.Kubectl(context.Background(), []byte(good), "create", "--dry-run=server", "-f", "-"); err != nil {
					failures.Store(err.Error(), true)
				}
				asked.Add(1)
			}
		})
	}
	r, err := startReplica(t.Context())
	if err == nil {
		replica = r
		err = old.Stop(suite.Grace())
	}
	from := asked.Load()
	suite.Until(t, "there is load on the new process", func() error {
		if n := asked.Load(); n < from+20 {
			return fmt.Errorf("%d creations were tried", n-from)
		}
		return nil
	})
	stop()
	wg.Wait()
	if err != nil {
		t.Errorf("the old process did not end by itself: %v", err)
	}
	failures.Range(func(k, _ any) bool { t.Errorf("a request failed: %v", k); return true })
}
