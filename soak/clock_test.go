package soak

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/certs"
)

// issuedAt writes the Secrets of the admission controller as of that time. The clock of a process cannot be moved, but the certificates
// that it checks can.
func (p *installation) issuedAt(then time.Time) {
	p.Helper()
	p.kubectl("delete", "secret", caName, pairName, "-n", namespace, "--ignore-not-found", "--wait=false")
	c, err := ctrlclient.New(p.Config, ctrlclient.Options{})
	if err != nil {
		p.Fatal(err)
	}
	r := &certs.Reconciler{
		Config: certs.Config{
			Namespace: namespace, CASecret: caName, TLSSecret: pairName, Algorithm: certs.RSA, RenewBefore: 15 * 24 * time.Hour,
			Names: certs.ServiceNames("kyverno-svc", namespace, ""),
		},
		Client: c, Reader: c, Now: func() time.Time { return then }, Log: slog.New(slog.DiscardHandler),
	}
	if _, err := r.Reconcile(p.Context()); err != nil {
		p.Fatal(err)
	}
}

// The clock passes the renewal time and the expiry of the certificates, with three replicas: the Secrets are from 140 days ago (the serving
// certificate is valid for 150 days, the CA for 365), from 355, and from 400.
func TestClockPassesRenewal(t *testing.T) {
	p := install(t)
	const day = 24 * time.Hour
	for _, c := range []struct {
		days int
		line string
	}{
		{140, "issuing the serving certificate"},
		{355, "writing the certificate authority"},
		{400, "writing the certificate authority"},
	} {
		p.issuedAt(time.Now().Add(-time.Duration(c.days) * day))
		before := p.versions()
		begin := time.Now()
		replicas := p.start(3)
		suite.Until(p.T, "the certificates are renewed", func() error { return p.restored(before) })
		suite.Until(p.T, "the log says so", func() error {
			if logs(replicas, c.line) == 0 {
				return fmt.Errorf("no line %q", c.line)
			}
			return nil
		})
		suite.Until(p.T, "the policy is enforced", func() error { return p.Enforced(t.Context()) })
		took := time.Since(begin)
		finish := p.Load(p.T, 4)
		time.Sleep(lasting(10 * time.Second))
		counts := finish()
		figure(t, fmt.Sprintf("certificates made %d days ago: renewed, with a line, and trusted", c.days), took.Round(100*time.Millisecond), "within 60 s", took < time.Minute)
		figure(t, fmt.Sprintf("failures of %d requests afterwards", counts.Asked), counts.Failed, "0", counts.Failed == 0)
		for _, r := range replicas {
			if err := r.Stop(40 * time.Second); err != nil {
				t.Errorf("%s did not end by itself: %v", r.Name, err)
			}
		}
	}
}
