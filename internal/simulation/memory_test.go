package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ephor.invalid/ephor/internal/simulation/apiserver"
)

// What the controllers hold in memory while a fault lasts has a bound: in the second half of a fault, the heap grows no further, whatever users
// do meanwhile.
func TestMemoryDuringFaults(t *testing.T) {
	// An object that comes and goes leaves no object behind, and work for a trigger of its own.
	passing := func(kind string, size int) func(*sim, int) error {
		return func(s *sim, i int) error {
			o := configMap("a", fmt.Sprint("m", i), map[string]any{"kind": kind}, map[string]any{"v": fmt.Sprint(i), "large": strings.Repeat("x", size)})
			if err := s.create(o); err != nil {
				return err
			}
			return s.remove(o)
		}
	}
	changing := func(s *sim, i int) error {
		return s.apply(configMap("a", fmt.Sprint("c", i%50), map[string]any{"team": fmt.Sprint(i % 3)}, map[string]any{"v": fmt.Sprint(i), "large": strings.Repeat("x", 10<<10)}))
	}
	for _, c := range []struct {
		name     string
		replicas map[string]int
		policy   string
		faults   []action
		does     func(*sim, int) error
		rounds   int
		pause    time.Duration
		grows    int64 // the most MiB in the second half; without a bound it would be several times that
	}{
		// Of these, 64 MiB wait to be written: three quarters of the first half.
		{"UpdateRequests are denied", map[string]int{"admission": 1, "background": 1}, "copy", []action{{what: "denyrequests"}}, passing("trigger", 250<<10), 320, 100 * time.Millisecond, 30},
		{"targets and events are denied", map[string]int{"admission": 1, "background": 1}, "append", []action{{what: "denytarget"}, {what: "denyevents"}}, passing("appender", 1<<10), 150, 2 * time.Second, 4},
		{"reports and events are denied", map[string]int{"reports": 2}, "labelled", []action{{what: "denyreports"}, {what: "denyevents"}}, changing, 300, 2 * time.Second, 6},
		{"watches end at once", map[string]int{"background": 1, "reports": 1}, "labelled", []action{{what: "cutwatches", n: 0}, {what: "cutwatches", n: 1}, {what: "cutwatches", n: 2}, {what: "hangdiscovery"}}, changing, 200, 2 * time.Second, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				s := newSim(t, ctx, &plan{replicas: c.replicas, policies: []string{c.policy}}, apiserver.Options{NoTrace: true, History: 100})
				defer func() { end(); s.close() }()
				s.prepare()
				until := time.Now().Add(2 * (time.Duration(c.rounds)*c.pause + 2*time.Minute))
				defer func() { time.Sleep(time.Until(until) + time.Minute) }() // what hangs until then ends
				for _, a := range c.faults {
					s.active = append(s.active, &fault{action: a, until: until, random: rand.New(rand.NewPCG(1, 1))})
				}
				s.server.Fault = s.fault
				var heap [2]int64
				for half := range heap {
					for i := range c.rounds {
						if err := c.does(s, half*c.rounds+i); err != nil {
							t.Fatal(err)
						}
						time.Sleep(c.pause)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					runtime.GC()
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					heap[half] = int64(m.HeapAlloc)
				}
				t.Logf("%d MiB, then %d MiB", heap[0]>>20, heap[1]>>20)
				if grown := heap[1] - heap[0]; grown > c.grows<<20 {
					t.Errorf("in the second half of the fault the heap has grown from %d to %d MiB", heap[0]>>20, heap[1]>>20)
				}
			})
		})
	}
}
