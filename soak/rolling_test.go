package soak

import (
	"fmt"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
)

// A rolling restart under load: each of three replicas in turn gets SIGTERM, with its successor started before (a surge) or after it has
// ended. No request fails, and no violating Pod is admitted.
func TestRollingRestart(t *testing.T) {
	p := install(t)
	replicas := p.start(3)
	p.podSecurity()
	c := p.podClient(8)
	suite.Until(p.T, "the policies are enforced", c.enforced)
	finish := c.storm()
	time.Sleep(lasting(10 * time.Second))
	var slowest time.Duration
	for _, surge := range []bool{true, false} {
		for i, old := range replicas {
			next := func() {
				r, err := p.Ephor.StartAdmission(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				replicas[i] = r
			}
			if surge {
				next()
			}
			begin := time.Now()
			if err := old.Stop(40 * time.Second); err != nil {
				t.Errorf("%s did not end by itself: %v\n%s", old.Name, err, old.Tail(10))
			}
			slowest = max(slowest, time.Since(begin))
			if !surge {
				next()
			}
		}
	}
	time.Sleep(lasting(10 * time.Second))
	counts := finish()
	for i, r := range counts.refused {
		if i < 5 {
			t.Logf("a clean Pod was refused at %s: %s", r.answered.Format(time.TimeOnly), r.text)
		}
	}
	failed := len(counts.refused) + counts.unavailableBad + len(counts.otherRefusalBad)
	figure(t, fmt.Sprintf("6 replicas ended by SIGTERM: failures of %d requests", counts.clean+counts.bad), failed, "0", failed == 0 && counts.clean > 0)
	figure(t, "violating Pods admitted", len(counts.admitted), "0", len(counts.admitted) == 0)
	tell(t, "the slowest end", slowest.Round(100*time.Millisecond))
}
