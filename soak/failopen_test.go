package soak

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// When no replica answers reviews, the leader of the cleanup controller lets the webhooks of resources fail open, and closed again when a
// replica answers. An outage of the API server does not count as silence, and without the flag nothing happens.
func TestFailOpen(t *testing.T) {
	p := install(t)
	admission := p.start(1)[0]
	// A heartbeat is stamped only if it passed our webhook.
	suite.Until(p.T, "heartbeats are stamped", func() error {
		if suite.Logged(admission, "reviews are answered") == 0 {
			return fmt.Errorf("its log ends with:\n%s", admission.Tail(5))
		}
		return nil
	})
	var watchers []*devcluster.Replica
	for range 2 { // only one of them leads
		r, err := p.Ephor.Start(t.Context(), devcluster.Cleanup, "--deadManSeconds=30")
		if err != nil {
			t.Fatal(err)
		}
		watchers = append(watchers, r)
	}
	var before []string
	suite.Until(p.T, "the cleanup controller has its own webhooks", func() (err error) {
		if before, err = p.failClosed(t.Context()); err == nil && !strings.Contains(fmt.Sprint(before), "kyverno-cleanup-") {
			err = fmt.Errorf("%q", before)
		}
		return err
	})
	admission.Kill()
	begin := time.Now()
	if err := p.CreateConfigMap(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Fatalf("without a replica:  %v", err)
	}
	suite.Until(p.T, "the webhooks fail open", func() error { return p.CreateConfigMap(t.Context(), "") })
	opened := time.Since(begin)
	hooks, err := p.failClosed(t.Context())
	if err != nil || len(hooks) == 0 || strings.Contains(fmt.Sprint(hooks), "-resource-") {
		t.Errorf("failing closed now: %q, %v: only the webhooks of resources fail open", hooks, err)
	}
	acted := 0
	for _, r := range watchers {
		acted += min(suite.Logged(r, "changed the failure policies"), 1)
	}
	figure(t, "silence of 30 s opens the webhooks after", opened.Round(time.Second), "20 s to 50 s", opened > 20*time.Second && opened < 50*time.Second)
	figure(t, "processes that acted", acted, "1", acted == 1)

	// A replica that returns does not restore the webhooks before it knows that reviews reach it, and then does it at once.
	began := time.Now()
	admission, err = p.Ephor.StartAdmission(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	suite.Until(p.T, "the policy is enforced", func() error { return p.Enforced(t.Context()) })
	shut := time.Since(began)
	figure(t, "the webhooks are shut after the return", shut.Round(100*time.Millisecond), "within 30 s", shut < 30*time.Second)
	suite.Until(p.T, "everything is as before", func() error {
		now, err := p.failClosed(t.Context())
		if err != nil || fmt.Sprint(now) != fmt.Sprint(before) {
			return fmt.Errorf("%q, want %q (%v)", now, before, err)
		}
		return nil
	})
	if out := p.kubectl("get", "validatingwebhookconfigurations", "-o", "jsonpath={.items[*].metadata.annotations}"); strings.Contains(out, "failing-open") {
		t.Errorf("the note is still there: %s", out)
	}

	// The configurations do not change while heartbeats arrive.
	time.Sleep(45 * time.Second)
	if now, err := p.failClosed(t.Context()); err != nil || fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("%q, want %q (%v)", now, before, err)
	}
}
