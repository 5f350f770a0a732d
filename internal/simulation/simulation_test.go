package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

var (
	seeds  = flag.Int("seeds", 200, "number of seeds")
	from   = flag.Uint64("from", 0, "the first seed")
	seed   = flag.Int64("seed", -1, "run only this seed, ten times, and shrink its plan if it fails")
	traced = flag.Bool("trace", false, "print the requests and the logs of -seed")
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // one of them sleeps until a time that it remembers from before the bubble
	os.Exit(m.Run())
}

// Whatever users do and whatever goes wrong meanwhile: some time after the last fault everything is as the policies say, and the controllers
// did not ask the API server too often. `-seed N` runs one plan, and shrinks it.
func TestSeeds(t *testing.T) {
	if *seed >= 0 {
		one(t, planOf(uint64(*seed)))
		return
	}
	for n := range uint64(*seeds) {
		t.Run(fmt.Sprint("seed=", *from+n), func(t *testing.T) {
			t.Parallel()
			p := planOf(*from + n)
			report(t, p, run(t, p))
		})
	}
}

// report fails the test with the plan, what is wrong, and the last requests.
func report(t *testing.T, p *plan, r *result) {
	t.Helper()
	if len(r.wrong) == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "seed %d: %s\n", p.seed, r.wrong[0]) // at once
	t.Errorf("%s\n%s\nlast requests:\n%s\nRun it alone with -run TestSeeds -seed %d", p, strings.Join(r.wrong, "\n"), trace(r, 60), p.seed)
}

// trace returns the last requests, without those for Leases and health.
func trace(r *result, most int) string {
	var out []string
	for _, c := range r.calls {
		if !strings.Contains(c.Request.Path, "/leases") && c.Request.Path != "/livez" {
			out = append(out, c.String())
		}
	}
	if most > 0 && len(out) > most {
		out = out[len(out)-most:]
	}
	return strings.Join(out, "\n")
}

// one runs a plan ten times, and drops actions as long as it then still fails in most runs.
func one(t *testing.T, p *plan) {
	fails := func(p *plan, runs, atLeast int) bool {
		n := 0
		for i := range runs {
			if len(run(t, p).wrong) > 0 {
				n++
			}
			if n >= atLeast || n+runs-i-1 < atLeast {
				break
			}
		}
		return n >= atLeast
	}
	failed := 0
	var last *result
	for range 10 {
		r := run(t, p)
		if len(r.wrong) > 0 || last == nil {
			last = r
		}
		if len(r.wrong) > 0 {
			failed++
		}
		if failed == 0 && *traced {
			break
		}
	}
	t.Logf("%d of 10 runs failed; virtual time %s, %d requests", failed, last.took, len(last.calls))
	if *traced {
		t.Logf("\n%s\nrequests:\n%s\nlog:\n%s", p, trace(last, 0), strings.Join(last.log, "\n"))
	}
	if failed == 0 {
		return
	}
	for size := max(1, len(p.actions)/2); size >= 1; size /= 2 {
		for at := 0; at+size <= len(p.actions); {
			if smaller := p.without(at, at+size); fails(smaller, 5, 4) {
				p = smaller
			} else {
				at += size
			}
		}
	}
	r := run(t, p)
	t.Logf("the smallest plan that still fails:")
	report(t, p, r)
	if len(r.wrong) == 0 {
		report(t, p, last)
	}
}
