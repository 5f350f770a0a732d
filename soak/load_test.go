package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ephor-dev/ephor/bench/load"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

// Eight clients create Pods through the API server: with the 18 policies of examples/pod-security enforced, and with no
// webhook at all, in turn. Clients, API server and Ephor share the machine, so that what a review costs all of them shows.
func TestPodsThroughTheAPIServer(t *testing.T) {
	const rounds = 7
	phase := lasting(10 * time.Second)
	p := install(t)
	replica := p.start(1)[0]
	p.podSecurity()
	c := p.podClient(8)
	p.eventually("the policies are enforced", c.enforced)
	api, err := p.cluster.Part(devcluster.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	// Who uses the processors: this process is the clients, and the proxy in front of the webhook.
	users := []struct {
		name string
		pid  int
	}{{"API server", api.PID()}, {"Ephor", replica.PID()}, {"clients and proxy", os.Getpid()}}
	spent := func() (out [3]time.Duration) {
		for i, u := range users {
			var err error
			if out[i], err = load.CPUTime(u.pid); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	var with, without, ratios []float64
	var used [2][3]time.Duration
	var created [2]float64
	measure := func(k int, count bool) float64 {
		before, begin := spent(), time.Now()
		perSecond, err := c.rate(phase)
		if err != nil {
			t.Fatal(err)
		}
		if after := spent(); count {
			created[k] += perSecond * time.Since(begin).Seconds()
			for i := range users {
				used[k][i] += after[i] - before[i]
			}
		}
		return perSecond
	}
	for i := range rounds + 1 {
		p.restore()
		p.eventually("the policies are enforced", c.enforced)
		w := measure(0, i > 0)
		p.unlock()
		p.eventually("no webhook is asked", func() error {
			if refusal, err := c.create(0, c.bad); err != nil || refusal != "" {
				return fmt.Errorf("%s (%v)", refusal, err)
			}
			return nil
		})
		wo := measure(1, i > 0)
		t.Logf("round %d: %.0f Pods/s with the policies, %.0f without any webhook: %.0f %%", i, w, wo, 100*w/wo)
		if i > 0 { // the first round only warms up
			with, without, ratios = append(with, w), append(without, wo), append(ratios, w/wo)
		}
	}
	if err := alive(replica); err != nil {
		t.Error(err)
	}
	tell(t, "Pods/s without any webhook", fmt.Sprintf("%.0f", median(without)))
	tell(t, "Pods/s with 18 policies", fmt.Sprintf("%.0f", median(with)))
	for i, u := range users {
		per := func(k int) float64 { return float64(used[k][i].Microseconds()) / created[k] }
		tell(t, "CPU per Pod, "+u.name+", with the policies and without", fmt.Sprintf("%.0f, %.0f µs", per(0), per(1)))
	}
	share := 100 * median(ratios)
	figure(t, fmt.Sprintf("rate with the policies, median of %d rounds", rounds), fmt.Sprintf("%.0f %%", share), "at least 75 %", share >= 75)
}

// unlock takes all webhook configurations away, as a user does.
func (p *place) unlock() { p.Helper(); p.command("unlock", "--for=1h") }

// restore puts them back.
func (p *place) restore() { p.Helper(); p.command("unlock", "--restore") }

// command runs ours as administrator.
func (p *place) command(args ...string) {
	p.Helper()
	root, err := devcluster.Root()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "ephor"), append(args, "--kubeconfig="+p.cluster.Kubeconfig)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("ephor %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
