package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// Every five seconds one of three replicas is killed (kill -9), every second time the leader, and started again, while eight clients create
// clean and violating Pods through the API server. The test's replacement of kube-proxy forwards to ready replicas, and closes a connection
// when its replica has ended.
func TestKills(t *testing.T) {
	const every = 5 * time.Second
	p := install(t)
	replicas := p.start(3)
	p.podSecurity()
	c := p.podClient(8)
	suite.Until(p.T, "the policies are enforced", c.enforced)
	var kills []time.Time
	leaders := 0
	finish := c.storm()
	for begin := time.Now(); time.Since(begin) < lasting(3*time.Minute); {
		next := time.Now().Add(every)
		victim := rand.IntN(len(replicas))
		if len(kills)%2 == 0 {
			if i := p.leaderOf(replicas); i >= 0 {
				victim = i
				leaders++
			}
		}
		kills = append(kills, time.Now())
		replicas[victim].Kill()
		r, err := p.Ephor.StartAdmission(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		replicas[victim] = r
		time.Sleep(time.Until(next))
	}
	counts := finish()
	figure(t, fmt.Sprintf("replicas killed, %d of them leaders", leaders), len(kills), "every 5 s", leaders > 0 && len(kills) >= int(lasting(3*time.Minute)/every)*3/4)
	figure(t, fmt.Sprintf("violating Pods admitted, of %d", counts.bad), len(counts.admitted), "0", len(counts.admitted) == 0 && counts.bad > 0)
	if len(counts.otherRefusalBad) > 0 {
		t.Errorf("violating Pods were refused for other reasons: %q", counts.otherRefusalBad[:min(3, len(counts.otherRefusalBad))])
	}
	other, late := 0, time.Duration(0)
	for _, r := range counts.refused {
		if !strings.Contains(r.text, unavailable) {
			other++
			t.Logf("a clean Pod was refused at %s: %s", r.answered.Format(time.TimeOnly), r.text)
		}
		after := time.Hour // time since the last kill before the answer
		for _, k := range kills {
			if k.Before(r.answered) {
				after = max(0, r.asked.Sub(k))
			}
		}
		late = max(late, after)
	}
	share := 100 * float64(len(counts.refused)) / float64(max(counts.clean, 1))
	figure(t, fmt.Sprintf("clean Pods refused, %d of %d", len(counts.refused), counts.clean), fmt.Sprintf("%.2f %%", share), "at most 1 %", share <= 1)
	figure(t, "of them without `failed calling webhook`", other, "0", other == 0)
	figure(t, "the latest of them asked for after a kill", late.Round(time.Millisecond), "within 2 s", late <= 2*time.Second)
}

// leaderOf returns the index of the replica that leads; -1 for none.
func (p *installation) leaderOf(replicas []*devcluster.Replica) int {
	r, err := p.Holder(p.T, "kyverno", replicas)
	if err != nil {
		return -1
	}
	return slices.Index(replicas, r)
}
