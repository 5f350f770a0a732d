package soak

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const (
	caName   = "kyverno-svc.kyverno.svc.kyverno-tls-ca"
	pairName = "kyverno-svc.kyverno.svc.kyverno-tls-pair"
)

// For two minutes a certificate Secret is deleted or damaged every few seconds, with three replicas and eight clients, and sometimes the
// lease is stolen: no request fails, and everything is restored each time.
func TestCertificateStorm(t *testing.T) {
	storm := lasting(2 * time.Minute)
	p := install(t)
	replicas := p.start(3)
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	finish := p.Load(p.T, 8)
	var worst time.Duration
	blows, thefts := 0, 0
	for begin := time.Now(); time.Since(begin) < storm; blows++ {
		before := p.versions()
		switch random.IntN(5) {
		case 0:
			p.kubectl("delete", "secret", caName, "-n", namespace, "--ignore-not-found", "--wait=false")
		case 1:
			p.kubectl("delete", "secret", pairName, "-n", namespace, "--ignore-not-found", "--wait=false")
		case 2:
			p.kubectl("delete", "secret", caName, pairName, "-n", namespace, "--ignore-not-found", "--wait=false")
		case 3:
			p.kubectl("patch", "secret", caName, "-n", namespace, "-p", `{"data":{"tls.key":"Z2FyYmFnZQ=="}}`)
		case 4:
			p.kubectl("patch", "secret", pairName, "-n", namespace, "-p", `{"data":{"tls.crt":"Z2FyYmFnZQ=="}}`)
		}
		if random.IntN(4) == 0 {
			p.steal()
			thefts++
		}
		took := suite.Until(p.T, "the Secrets are restored", func() error { return p.restored(before) })
		worst = max(worst, took)
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	}
	c := finish()
	figure(t, fmt.Sprintf("%d blows, %d thefts of the lease, restored", blows, thefts), worst.Round(100*time.Millisecond), "within 60 s", worst < time.Minute)
	figure(t, fmt.Sprintf("failures of %d requests", c.Asked), c.Failed, "0", c.Failed == 0)
	issued := 0
	for _, r := range replicas {
		issued += suite.Logged(r, "issuing the serving certificate") + suite.Logged(r, "writing the certificate authority")
	}
	figure(t, "lines of the log that say what was restored", issued, "at least the blows", issued >= blows)
}

// versions returns the versions of the two Secrets.
func (p *installation) versions() (out [2]string) {
	for i, name := range []string{caName, pairName} {
		if s, err := p.Client.CoreV1().Secrets(namespace).Get(p.Context(), name, metav1.GetOptions{}); err == nil {
			out[i] = s.ResourceVersion
		}
	}
	return out
}

// restored returns an error while the Secrets are not restored.
func (p *installation) restored(before [2]string) error {
	now := p.versions()
	switch {
	case now[0] == "" || now[1] == "":
		return fmt.Errorf("a Secret is missing")
	case now == before:
		return fmt.Errorf("nothing was written")
	}
	for _, name := range []string{caName, pairName} {
		s, err := p.Client.CoreV1().Secrets(namespace).Get(p.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Data["tls.crt"]) < 100 || len(s.Data["tls.key"]) < 100 {
			return fmt.Errorf("%s is damaged", name)
		}
	}
	return nil
}

// steal writes another holder's name into the lease.
func (p *installation) steal() {
	p.kubectl("patch", "lease", "kyverno", "-n", namespace, "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"holderIdentity":"thief","renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
}

// The lease is stolen eight times from three replicas: reviews are answered, the leader stops within seconds, and each time a replica leads
// again.
func TestLeaseStolenAgainAndAgain(t *testing.T) {
	p := install(t)
	replicas := p.start(3)
	p.leader(replicas)
	finish := p.Load(p.T, 4)
	var letGo, again time.Duration
	for range 8 {
		ended := logs(replicas, "no longer leading")
		p.steal()
		letGo = max(letGo, suite.Until(p.T, "the leader lets go", func() error {
			if logs(replicas, "no longer leading") == ended {
				return fmt.Errorf("it still leads")
			}
			return nil
		}))
		again = max(again, p.leader(replicas))
	}
	c := finish()
	figure(t, "stolen 8 times, the leader lets go", letGo.Round(100*time.Millisecond), "within 5 s", letGo < 5*time.Second)
	figure(t, "a replica leads again", again.Round(100*time.Millisecond), "within 20 s", again < 20*time.Second)
	figure(t, fmt.Sprintf("failures of %d requests", c.Asked), c.Failed, "0", c.Failed == 0)
}

func logs(replicas []*devcluster.Replica, words ...string) (n int) {
	for _, r := range replicas {
		n += suite.Logged(r, words...)
	}
	return n
}

// leader waits until one of the replicas holds the lease.
func (p *installation) leader(among []*devcluster.Replica) time.Duration {
	return suite.Until(p.T, "a replica leads", func() error {
		_, err := p.Holder(p.T, "kyverno", among)
		return err
	})
}
