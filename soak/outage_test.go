package soak

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// outage removes a dependency of a running installation of three replicas and restores it, and measures how long Ephor then needs until
// everything works: the policy is enforced, a replica leads, a new policy becomes ready and is enforced, and a deleted webhook
// configuration is created again.
func outage(t *testing.T, what string, takeAway, bringBack func(p *installation)) {
	p := install(t)
	replicas := p.start(3)
	suite.Until(p.T, "heartbeats are stamped", func() error {
		if logs(replicas, "reviews are answered") == 0 {
			return fmt.Errorf("nobody says so")
		}
		return nil
	})
	gone, back := logs(replicas, "the API server does not answer"), logs(replicas, "the API server answers again")
	takeAway(p)
	bringBack(p)
	begin := time.Now()
	suite.Until(p.T, "the policy is enforced", func() error { return p.Enforced(t.Context()) })
	tell(t, what+": the policy is enforced again", time.Since(begin).Round(100*time.Millisecond))
	suite.Until(p.T, "a new policy is accepted", func() error {
		_, err := p.Kubectl(t.Context(), []byte(strings.ReplaceAll(suite.RequireTeam, "ConfigMap", "Secret,ConfigMap")), "apply", "-f", "-")
		return err
	})
	suite.Until(p.T, "a policy made now is in force", func() error { return p.asksFor("secrets") })
	p.leader(replicas)
	p.kubectl("delete", "validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg", "--ignore-not-found")
	suite.Until(p.T, "a deleted configuration is made again", func() error {
		_, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "kyverno-policy-validating-webhook-cfg", metav1.GetOptions{})
		return err
	})
	took := time.Since(begin)
	figure(t, what+": everything is as before", took.Round(100*time.Millisecond), "within 60 s", took < time.Minute)
	suite.Until(p.T, "the log reports it", func() error {
		for _, r := range replicas {
			if err := suite.Alive(r); err != nil {
				t.Fatal(err)
			}
		}
		if logs(replicas, "the API server does not answer") == gone || logs(replicas, "the API server answers again") == back {
			return fmt.Errorf("no line about the outage; a log ends with:\n%s", replicas[0].Tail(20))
		}
		return nil
	})
	said := 0
	for asked := time.Now(); said < len(replicas) && time.Since(asked) < time.Minute; time.Sleep(100 * time.Millisecond) {
		said = 0
		for _, r := range replicas {
			said += min(suite.Logged(r, "the API server answers again"), 1)
		}
	}
	figure(t, what+": replicas whose log says that it is over", said, "3", said == 3)
}

// asksFor returns an error while no webhook covers a resource.
func (p *installation) asksFor(resource string) error {
	cfg, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(p.Context(), "kyverno-resource-validating-webhook-cfg", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, w := range cfg.Webhooks {
		for _, r := range w.Rules {
			for _, name := range r.Resources {
				if name == resource {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("no webhook asks for %s", resource)
}

// The API server is killed and started again after some seconds. Without this pause it might be back before any client sends a request.
func TestAPIServerRestarts(t *testing.T) {
	outage(t, "the API server was restarted", func(p *installation) {
		api, err := p.Part(devcluster.APIServer)
		if err != nil {
			t.Fatal(err)
		}
		api.Kill()
		time.Sleep(5 * time.Second)
	}, func(p *installation) {
		if err := p.Restart(t.Context(), devcluster.APIServer); err != nil {
			t.Fatal(err)
		}
	})
}

// etcd does not answer for 30 seconds. The API server keeps listening, but can neither read nor write.
func TestEtcdStops(t *testing.T) {
	var etcd *devcluster.Process
	outage(t, "etcd was stopped for 30 s", func(p *installation) {
		var err error
		if etcd, err = p.Part(devcluster.Etcd); err != nil {
			t.Fatal(err)
		}
		if err := etcd.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
	}, func(*installation) {
		if err := etcd.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
}
