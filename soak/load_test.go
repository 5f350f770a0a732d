package soak

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// The 18 policies of examples/pod-security.
func TestPodsThroughTheAPIServer(t *testing.T) {
	loadOf(t, (*installation).podSecurity, nil)
}

// loadOf has eight clients create Pods through the API server, alternately with 18 policies enforced, without a webhook, and with a
// no-op webhook; every other round has the reverse order. Clients, API server and webhooks share the machine, so the rate shows the total
// cost of a review; the no-op webhook shows the API server's part. With native, the API server also evaluates policies of its own: native
// creates them, and returns a function that removes them. These rounds follow the others, because the API server serves about 4 % fewer
// Pods in the seconds after it has evaluated policies of its own.
func loadOf(t *testing.T, policies func(*installation), native func(*installation) (remove func())) {
	const rounds, nativeRounds = 13, 5 // one may differ by a tenth on a shared machine
	phase := lasting(7 * time.Second)
	p := install(t)
	if err := p.Ephor.WithoutForwarder(devcluster.Admission); err != nil {
		t.Fatal(err)
	}
	replica := p.start(1)[0]
	policies(p)
	c := p.podClient(8)
	suite.Until(p.T, "the policies are enforced", c.enforced)
	api, err := p.Part(devcluster.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	noop, stop, err := load.StartNoop(root, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// The processes that use the processors: this process is the clients.
	users := []struct {
		name string
		pid  int
	}{{"API server", api.PID()}, {"webhook", replica.PID() /* or that of the no-op */}, {"clients", os.Getpid()}}
	spent := func() (out [3]time.Duration) {
		for i, u := range users {
			var err error
			if out[i], err = load.CPUTime(u.pid); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	const ours, none, nothing, server = 0, 1, 2, 3
	var rates [4][]float64
	var used [4][3]time.Duration
	var created [4]float64
	rest := lasting(2 * time.Second)
	measure := func(k int, count bool) float64 {
		// The work that a change of webhooks or policies causes has to end first, in the API server and in our controllers. It is not part
		// of the load.
		time.Sleep(rest)
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
			rates[k] = append(rates[k], perSecond)
		}
		return perSecond
	}
	unlock := func() {
		p.unlock()
		suite.Until(p.T, "no webhook is asked", func() error {
			if refusal, err := c.create(0, c.bad); err != nil || refusal != "" {
				return fmt.Errorf("%s (%v)", refusal, err)
			}
			return nil
		})
	}
	// Each variant is measured between changes that leave the API server without webhooks.
	variants := [3]func(count bool) float64{
		ours: func(count bool) float64 {
			p.restore()
			suite.Until(p.T, "the policies are enforced", c.enforced)
			users[1].pid = replica.PID()
			defer unlock()
			return measure(ours, count)
		},
		none: func(count bool) float64 { return measure(none, count) },
		nothing: func(count bool) float64 {
			users[1].pid = noop.PID
			p.askNoop(noop)
			defer p.kubectl("delete", "validatingwebhookconfiguration", "noop")
			return measure(nothing, count)
		},
	}
	var shares, sharesNoop, sharesNative []float64
	unlock()
	for i := range rounds + 1 { // the first round only warms up
		order := []int{ours, none, nothing}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		var per [3]float64
		for _, k := range order {
			per[k] = variants[k](i > 0)
		}
		share := per[ours] / per[none]
		t.Logf("round %d: %.0f Pods/s with the policies, %.0f without any webhook, %.0f with one that does nothing: %.0f %%", i, per[ours], per[none], per[nothing], 100*share)
		if i > 0 {
			shares, sharesNoop = append(shares, share), append(sharesNoop, per[nothing]/per[none])
		}
	}
	if native != nil {
		for range nativeRounds {
			wo := measure(none, false)
			remove := native(p)
			suite.Until(p.T, "the API server enforces its own policies", c.enforced)
			sharesNative = append(sharesNative, measure(server, true)/wo)
			remove()
			time.Sleep(rest)
		}
	}
	if used[nothing][1] == 0 {
		t.Error("the webhook that does nothing was not asked")
	}
	if err := suite.Alive(replica); err != nil {
		t.Error(err)
	}
	tell(t, "Pods/s without any webhook", fmt.Sprintf("%.0f", median(rates[none])))
	tell(t, "Pods/s with 18 policies", fmt.Sprintf("%.0f", median(rates[ours])))
	for i, u := range users {
		per := func(k int) float64 { return float64(used[k][i].Microseconds()) / created[k] }
		tell(t, "CPU per Pod, "+u.name+": policies, no-op, no webhook", fmt.Sprintf("%.0f, %.0f, %.0f µs", per(ours), per(nothing), per(none)))
	}
	if native != nil {
		tell(t, "CPU per Pod, API server, with policies of its own", fmt.Sprintf("%.0f µs", float64(used[server][0].Microseconds())/created[server]))
		tell(t, "rate with 18 policies of the API server", fmt.Sprintf("%.1f %%", 100*median(sharesNative)))
	}
	tell(t, "rate with a webhook that does nothing", fmt.Sprintf("%.1f %%", 100*median(sharesNoop)))
	share := 100 * median(shares)
	figure(t, fmt.Sprintf("rate with the policies, median of %d rounds", rounds), fmt.Sprintf("%.1f %%", share), "at least 75 %", share >= 75)
}

// askNoop lets the API server call the no-op webhook for Pods, and waits until it does.
func (p *installation) askNoop(noop *load.Server) {
	p.Helper()
	conn, err := tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(noop.URL, "https://"), "/validate"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		p.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
	conn.Close()
	p.apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: noop}
webhooks:
- name: noop.ephor.dev
  clientConfig: {url: %q, caBundle: %s}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
`, noop.URL, base64.StdEncoding.EncodeToString(ca)))
	time.Sleep(2 * time.Second) // the API server's informer is quicker
}

// unlock removes all webhook configurations, as a user does.
func (p *installation) unlock() { p.Helper(); p.command("unlock", "--for=1h") }

// restore restores them.
func (p *installation) restore() { p.Helper(); p.command("unlock", "--restore") }

// command runs our command line as administrator.
func (p *installation) command(args ...string) {
	p.Helper()
	root, err := devcluster.Root()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "ephor"), append(args, "--kubeconfig="+p.Kubeconfig)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("ephor %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
