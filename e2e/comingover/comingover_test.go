package comingover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

var cluster suite.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{})) }

// population contains the objects that Kyverno leaves: policies of both families, and the targets of a mutation that must be made once only.
const population = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: no-bad}
spec:
  background: false
  rules:
  - name: no-bad
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [shop]}}]}
    validate:
      failureAction: Enforce
      message: the label bad is not allowed
      pattern: {metadata: {=(labels): {X(bad): "?*"}}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: no-bad-cel}
spec:
  validationActions: [Deny]
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations:
  - expression: "!has(object.metadata.labels) || !('bad-cel' in object.metadata.labels)"
    message: the label bad-cel is not allowed
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: count}
spec:
  background: false
  rules:
  - name: count
    match: {any: [{resources: {kinds: [ServiceAccount], namespaces: [shop], selector: {matchLabels: {counts: "yes"}}}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: shop, name: "{{ request.object.metadata.name }}"}]
      patchStrategicMerge: {data: {count: "{{ target.data.count }}x"}}
`

// counted returns a trigger with its target.
func counted(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, namespace: shop}
data: {count: "0"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: shop, labels: {counts: "yes"}}
`, name)
}

// request returns the UpdateRequest for a trigger, as Kyverno's admission controller writes it.
func request(name string) string {
	return fmt.Sprintf(`
apiVersion: kyverno.io/v2
kind: UpdateRequest
metadata:
  name: ur-%[1]s
  namespace: kyverno
  labels:
    mutate.updaterequest.kyverno.io/policy-name: count
    mutate.updaterequest.kyverno.io/trigger-name: %[1]s
    mutate.updaterequest.kyverno.io/trigger-namespace: shop
    mutate.updaterequest.kyverno.io/trigger-kind: ServiceAccount
    mutate.updaterequest.kyverno.io/trigger-apiversion: v1
spec:
  requestType: mutate
  policy: count
  rule: count
  deleteDownstream: false
  resource: {apiVersion: v1, kind: ServiceAccount, namespace: shop, name: %[1]s}
  context:
    userInfo: {userInfo: {username: admin}}
    admissionRequestInfo: {}
`, name)
}

// question is a request that a probe repeats. ask returns nil if the object is admitted.
type question struct {
	name     string
	violates bool
	ask      func(context.Context) error
}

// questions returns violating objects of each enforcing policy, and valid ones. Nothing is stored.
func questions(in *installation) (all []question) {
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, label := range []string{"bad", "bad-cel", "fine"} {
		all = append(all, question{"a ConfigMap with the label " + label, label != "fine", func(ctx context.Context) error {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: "shop", Labels: map[string]string{label: "yes"}}}
			o, err := in.Client.CoreV1().ConfigMaps("shop").Create(ctx, o, dryRun)
			if err == nil && in.recorded != nil && o.Labels["added"] != "yes-added" {
				return errUnchanged
			}
			return err
		}})
	}
	if in.recorded == nil {
		return all
	}
	for _, tag := range []string{"latest", "1.27"} {
		all = append(all, question{"a Pod with the tag " + tag, tag == "latest", func(ctx context.Context) error {
			o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: "rec"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:" + tag}}}}
			_, err := in.Client.CoreV1().Pods("rec").Create(ctx, o, dryRun)
			return err
		}})
	}
	return all
}

// errUnchanged is the error for an object that was admitted without the label that a recorded policy adds.
var errUnchanged = errors.New("admitted, but not mutated")

// probe sends every question four times a second until the end of the test, and records unexpected answers.
type probe struct {
	questions []question

	mu       sync.Mutex
	swapping bool
	swaps    int
	open     bool // the webhooks are unlocked
	opened   int
	passed   int                      // violating objects that were admitted while unlocked
	admitted []string                 // violating objects that were admitted otherwise
	refused  []string                 // valid objects that were denied outside of swaps
	longest  map[string]time.Duration // the longest time for which a valid object was denied during a swap
	asked    int
}

func startProbe(t *testing.T, in *installation) *probe {
	t.Helper()
	p := &probe{questions: questions(in)}
	p.start(t)
	return p
}

func (p *probe) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.longest = map[string]time.Duration{}
	var done sync.WaitGroup
	for _, q := range p.questions {
		done.Go(func() {
			var since time.Time
			for ctx.Err() == nil {
				began := time.Now()
				p.mu.Lock()
				swapping, swaps, open, opened := p.swapping, p.swaps, p.open, p.opened
				p.mu.Unlock()
				asking, cancel := context.WithTimeout(ctx, devcluster.Patience())
				err := q.ask(asking)
				cancel()
				if ctx.Err() != nil {
					return
				}
				p.mu.Lock()
				p.asked++
				what := fmt.Sprintf("%s at %s: %v", q.name, began.Format("15:04:05.000"), err)
				switch {
				case q.violates && (err == nil || errors.Is(err, errUnchanged)), errors.Is(err, errUnchanged):
					if open || p.open || opened != p.opened {
						p.passed++
					} else {
						p.admitted = append(p.admitted, what)
					}
				case q.violates:
				case err == nil:
					since = time.Time{}
				default:
					if since.IsZero() {
						since = began
					}
					p.longest[q.name] = max(p.longest[q.name], time.Since(since))
					if !swapping && !p.swapping && swaps == p.swaps { // a swap that began and ended meanwhile counts
						p.refused = append(p.refused, what)
					}
				}
				p.mu.Unlock()
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { cancel(); done.Wait() })
}

// swap runs f, which replaces one program by the other. Valid objects may be denied until f has returned and each of them was admitted
// again.
func (p *probe) swap(t *testing.T, f func()) {
	t.Helper()
	set := func(swapping bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.swapping = swapping
		p.swaps++
	}
	began := time.Now()
	set(true)
	defer set(false)
	f()
	replaced := time.Since(began)
	for _, q := range p.questions {
		if !q.violates {
			suite.Until(t, q.name+" is admitted", func() error { return q.ask(t.Context()) })
		}
	}
	t.Logf("the swap took %s, and clean objects were admitted %s later", replaced.Round(time.Millisecond), (time.Since(began) - replaced).Round(time.Millisecond))
}

// unlocked runs f, which removes the webhooks and waits until they are restored. Violating objects may be admitted meanwhile.
func (p *probe) unlocked(t *testing.T, f func()) {
	t.Helper()
	set := func(open bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = open
		p.opened++
	}
	began := time.Now()
	set(true)
	f()
	set(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("the webhooks were unlocked for %s, in which %d objects passed that a policy refuses or changes", time.Since(began).Round(time.Millisecond), p.passed)
	p.passed = 0
}

// check reports the unexpected answers so far.
func (p *probe) check(t *testing.T, what string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%s: %d requests; clean ones were refused for at most %v", what, p.asked, p.longest)
	if p.asked == 0 {
		t.Errorf("%s: the probe asked nothing", what)
	}
	for _, a := range p.admitted {
		t.Errorf("%s: admitted although a policy refuses or changes it: %s", what, a)
	}
	for _, r := range p.refused {
		t.Errorf("%s: refused although it is clean and no program is replaced: %s", what, r)
	}
	p.admitted, p.refused = nil, nil
}

// counts returns an error unless the target was changed as often as want says.
func (in *installation) counts(name, want string) error {
	in.t.Helper()
	if got := in.kubectl("", "get", "configmap", name, "-n", "shop", "-o", "jsonpath={.data.count}"); got != want {
		return fmt.Errorf("the count of %s is %q, not %q", name, got, want)
	}
	return nil
}

// states returns the states of all UpdateRequests by their names.
func (in *installation) states() string {
	in.t.Helper()
	return in.kubectl("", "get", "updaterequests", "-n", suite.Namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.state}{"\n"}{end}`)
}

// work creates an UpdateRequest in each state, with its trigger and its target.
func (in *installation) work() {
	in.t.Helper()
	for name, state := range map[string]string{"empty": "", "pending": "Pending", "skipped": "Skip", "failed": "Failed", "completed": "Completed"} {
		in.kubectl(counted(name)+"---"+request(name), "apply", "-f", "-")
		if state != "" {
			in.kubectl("", "patch", "updaterequest", "ur-"+name, "-n", suite.Namespace, "--subresource=status", "--type=merge", "-p", `{"status":{"state":"`+state+`"}}`)
		}
	}
}

// worked checks that open requests changed their targets once, and that others changed nothing.
func (in *installation) worked() {
	in.t.Helper()
	for name, want := range map[string]string{"pending": "0x", "empty": "0x", "failed": "0x", "skipped": "0", "completed": "0"} {
		suite.Eventually(in.t, func() error { return in.counts(name, want) })
	}
	suite.Until(in.t, "what was carried out is removed", func() error {
		if got := in.states(); got != "ur-skipped=Skip" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}

// leftForKyverno leaves open work for a trigger, and checks after stop that no UpdateRequest has a state that Kyverno does not process.
func (in *installation) leftForKyverno(background *devcluster.Replica, name string, stop func()) {
	in.t.Helper()
	suite.Stop(in.t, background)
	in.kubectl(counted(name), "apply", "-f", "-")
	suite.Until(in.t, "the work is written", func() error {
		if got := in.states(); !strings.Contains(got, "=\n") && !strings.HasSuffix(got, "=") {
			return fmt.Errorf("no UpdateRequest without a state: %s", got)
		}
		return nil
	})
	stop()
	for line := range strings.SplitSeq(in.states(), "\n") {
		if !strings.HasSuffix(line, "=Pending") && line != "ur-skipped=Skip" {
			in.t.Errorf("an UpdateRequest is left that Kyverno does not carry out: %s", line)
		}
	}
	if err := in.counts(name, "0"); err != nil {
		in.t.Error(err)
	}
}

// shared is the control plane that the tests of this file share. After the test it has neither webhooks nor the population.
func shared(t *testing.T) *installation {
	t.Helper()
	in := &installation{Cluster: &cluster, t: t}
	t.Cleanup(func() {
		in.kubectl("", "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")
		in.kubectl(population, "delete", "-f", "-")
	})
	return in
}

// enforces waits until a violating object is denied: by a policy, or because no server answers.
func (in *installation) enforces(what string, answered bool) {
	in.t.Helper()
	suite.Until(in.t, what, func() error {
		out, err := in.Try(in.t, strings.Replace(counted("refused"), "namespace: shop}", "namespace: shop, labels: {bad: x}}", 1), "create", "--dry-run=server", "-f", "-")
		if err == nil || strings.Contains(err.Error(), "label bad is not allowed") != answered {
			return fmt.Errorf("%s, %v", out, err)
		}
		return nil
	})
}

// A rolling switch to Ephor and back: both programs run at the same time for a while.
func TestRolling(t *testing.T) {
	in := shared(t)
	kyverno := startStandIn(t, in.Client, nil, "rolling-1")
	in.beside(kyverno)
	in.kubectl(population, "apply", "--server-side", "--field-manager=helm", "-f", "-")
	in.work()
	in.enforces("the stand-in enforces", true)
	p := startProbe(t, in)

	// To Ephor: its processes start while Kyverno's run. Kyverno's Leases expire.
	admission := in.Start(t, devcluster.Admission, "--webhookSecretPaths=false")
	background := in.Start(t, devcluster.Background)
	suite.Says(t, background, "standing by")
	renewed := ""
	for range 3 { // the work would be done meanwhile
		before := renewed
		suite.Until(t, "Kyverno's controller has renewed the lease", func() error {
			renewed = in.kubectl("", "get", "lease", "kyverno-background-controller", "-n", suite.Namespace, "-o", "jsonpath={.spec.renewTime}")
			if renewed == before {
				return fmt.Errorf("it was renewed at %s", renewed)
			}
			return nil
		})
	}
	for _, name := range []string{"pending", "empty", "skipped", "failed", "completed"} {
		if err := in.counts(name, "0"); err != nil {
			t.Errorf("while Kyverno's controller holds the lease: %v", err)
		}
	}
	p.swap(t, func() { in.beside(); kyverno.leave(t) })
	suite.Says(t, admission, "leading", "lease=kyverno")
	suite.Says(t, background, "no longer standing by")
	in.owned("kyverno:admission-controller")
	in.worked()
	in.kubectl("", "wait", "--for=condition=Ready", "clusterpolicy", "no-bad", "count")
	p.check(t, "there")

	// Back to Kyverno: Helm deletes objects that Kyverno's chart does not have, which deletes nothing else, and open work is left for
	// Kyverno.
	before := in.kubectl("", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.metadata.uid}")
	in.leftForKyverno(background, "left", func() {
		in.kubectl("", "delete", "clusterrole", "kyverno:webhook", "--cascade=foreground")
		again := startStandIn(t, in.Client, nil, "rolling-2")
		in.beside(again)
		p.swap(t, func() { suite.Stop(t, admission); in.beside(again) })
	})
	in.owned("")
	if after := in.kubectl("", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.metadata.uid}"); after != before {
		t.Error("the webhook configuration was deleted and made again")
	}
	p.check(t, "there and back")
}

// A switch to Ephor and back in which one program stops before the other starts: requests that policies select are denied meanwhile, since
// the webhooks fail closed, and answered as soon as the other program is ready. No violating request is admitted.
func TestStopped(t *testing.T) {
	in := shared(t)
	kyverno := startStandIn(t, in.Client, nil, "stopped-1")
	in.beside(kyverno)
	in.kubectl(population, "apply", "--server-side", "--field-manager=helm", "--force-conflicts", "-f", "-")
	in.enforces("the stand-in enforces", true)
	p := startProbe(t, in)
	var admission *devcluster.Replica
	p.swap(t, func() {
		kyverno.end()
		in.beside()
		in.enforces("without a server the webhooks fail closed", false)
		admission = in.Start(t, devcluster.Admission, "--webhookSecretPaths=false")
	})
	in.enforces("Ephor enforces", true)
	p.check(t, "there")

	var again *standIn
	p.swap(t, func() {
		suite.Stop(t, admission)
		in.enforces("after Ephor has stopped, its webhooks fail closed", false)
		again = startStandIn(t, in.Client, nil, "stopped-2")
		in.beside(again)
	})
	in.enforces("the stand-in enforces again", true)
	p.check(t, "there and back")
	again.end()
}

// beside adds the stand-in to the endpoints of the Services, or removes it. The other endpoints stay.
func (in *installation) beside(kyverno ...*standIn) {
	in.t.Helper()
	var backends []devcluster.Backend
	for _, s := range kyverno {
		backends = append(backends, s.backend())
	}
	for _, component := range []string{devcluster.Admission, devcluster.Cleanup} {
		if err := in.Ephor.Beside(component, backends...); err != nil {
			in.t.Fatal(err)
		}
	}
}

// owned waits until the webhook configuration for resources has the owner, or none.
func (in *installation) owned(owner string) {
	in.t.Helper()
	suite.Until(in.t, "the webhook configuration has the owner "+owner, func() error {
		got := in.kubectl("", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.metadata.ownerReferences[*].name}")
		if got != owner {
			return fmt.Errorf("the owner is %q", got)
		}
		return nil
	})
}
