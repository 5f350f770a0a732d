package comingover

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ephor-dev/ephor/e2e/suite"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

var cluster suite.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{})) }

// population is what Kyverno leaves: policies of both languages, and the targets of a mutation that must not be made twice.
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

// counted is a trigger with its target.
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

// request is the UpdateRequest for a trigger as Kyverno's admission controller writes it.
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

// probe sends requests of three kinds until stop, and keeps what went wrong.
type probe struct {
	mu       sync.Mutex
	admitted []string      // that a policy refuses
	refused  time.Duration // the longest time in which all clean requests failed
	why      error
	asked    int
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func startProbe(t *testing.T) *probe {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{stop: cancel}
	ask := func(label string) error {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: "shop", Labels: map[string]string{label: "yes"}}}
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		_, err := cluster.Client.CoreV1().ConfigMaps("shop").Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for _, label := range []string{"bad", "bad-cel", "fine"} {
		p.done.Go(func() {
			var since time.Time
			for ctx.Err() == nil {
				began := time.Now()
				err := ask(label)
				if ctx.Err() != nil {
					return
				}
				p.mu.Lock()
				p.asked++
				switch {
				case label != "fine":
					if err == nil {
						p.admitted = append(p.admitted, fmt.Sprintf("%s at %s", label, began.Format("15:04:05.000")))
					}
				case err == nil:
					since = time.Time{}
				default:
					if since.IsZero() {
						since = began
					}
					if d := time.Since(since); d > p.refused {
						p.refused, p.why = d, err
					}
				}
				p.mu.Unlock()
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { cancel(); p.done.Wait() })
	return p
}

// check reports what the probe found. swap is how long clean requests may fail.
func (p *probe) check(t *testing.T, what string, swap time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%s: %d requests; clean ones failed for %s at most (%v)", what, p.asked, p.refused.Round(time.Millisecond), p.why)
	if len(p.admitted) > 0 {
		t.Errorf("%s: %d requests were admitted that a policy refuses: %v", what, len(p.admitted), p.admitted)
	}
	if p.refused > swap {
		t.Errorf("%s: clean requests failed for %s: %v", what, p.refused, p.why)
	}
}

// counts waits until the target was changed once, and then checks that this stays so.
func counts(t *testing.T, name, want string) error {
	t.Helper()
	if got := cluster.Must(t, "", "get", "configmap", name, "-n", "shop", "-o", "jsonpath={.data.count}"); got != want {
		return fmt.Errorf("the count of %s is %q, not %q", name, got, want)
	}
	return nil
}

// state returns the states of all UpdateRequests by their names.
func states(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(cluster.Must(t, "", "get", "updaterequests", "-n", suite.Namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.state}{"\n"}{end}`))
}

// There and back in a rolling way: both programs run for a while.
func TestRolling(t *testing.T) {
	kyverno := startStandIn(t, "kyverno-1")
	if err := cluster.Ephor.Beside(devcluster.Admission, kyverno.backend()); err != nil {
		t.Fatal(err)
	}
	cluster.Must(t, population, "apply", "--server-side", "--field-manager=helm", "-f", "-")
	for _, name := range []string{"pending", "empty", "skipped", "failed", "completed"} {
		cluster.Must(t, counted(name)+"---"+request(name), "apply", "-f", "-")
	}
	for name, state := range map[string]string{"pending": "Pending", "skipped": "Skip", "failed": "Failed", "completed": "Completed"} {
		cluster.Must(t, "", "patch", "updaterequest", "ur-"+name, "-n", suite.Namespace, "--subresource=status", "--type=merge", "-p", `{"status":{"state":"`+state+`"}}`)
	}
	suite.Until(t, "the stand-in enforces", func() error {
		_, err := cluster.Try(t, strings.Replace(counted("refused"), "namespace: shop}", "namespace: shop, labels: {bad: x}}", 1), "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "label bad is not allowed") {
			return fmt.Errorf("not refused: %v", err)
		}
		return nil
	})
	p := startProbe(t)

	// There: ours start beside Kyverno's, which end by running out of time.
	admission := cluster.Start(t, devcluster.Admission, "--webhookSecretPaths=false")
	background := cluster.Start(t, devcluster.Background)
	suite.Says(t, background, "standing by")
	time.Sleep(4 * time.Second)
	for _, name := range []string{"pending", "empty", "skipped", "failed", "completed"} {
		if err := counts(t, name, "0"); err != nil {
			t.Errorf("while Kyverno's controller holds the lease: %v", err)
		}
	}
	if err := cluster.Ephor.Beside(devcluster.Admission); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // what is open is answered
	kyverno.end()
	suite.Says(t, admission, "leading", "lease=kyverno")
	suite.Says(t, background, "no longer standing by")
	owned(t, "kyverno:admission-controller")
	for name, want := range map[string]string{"pending": "0x", "empty": "0x", "failed": "0x", "skipped": "0", "completed": "0"} {
		suite.Eventually(t, func() error { return counts(t, name, want) })
	}
	suite.Until(t, "what was carried out is removed", func() error {
		if got := states(t); got != "ur-skipped=Skip" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	cluster.Must(t, "", "wait", "--for=condition=Ready", "--timeout=60s", "clusterpolicy", "no-bad", "count")
	p.check(t, "there", 2*time.Second)

	// Back: what Helm deletes that Kyverno's chart does not have takes nothing along, and open work is left for Kyverno.
	suite.Stop(t, background)
	cluster.Must(t, counted("left"), "apply", "-f", "-")
	suite.Until(t, "the work is written", func() error {
		if got := states(t); !strings.Contains(got, "=\n") && !strings.HasSuffix(got, "=") {
			return fmt.Errorf("no UpdateRequest without a state: %s", got)
		}
		return nil
	})
	before := cluster.Must(t, "", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.metadata.uid}")
	cluster.Must(t, "", "delete", "clusterrole", "kyverno:webhook", "--cascade=foreground")
	again := startStandIn(t, "kyverno-2")
	if err := cluster.Ephor.Beside(devcluster.Admission, again.backend()); err != nil {
		t.Fatal(err)
	}
	suite.Stop(t, admission)
	if err := cluster.Ephor.Beside(devcluster.Admission, again.backend()); err != nil {
		t.Fatal(err)
	}
	owned(t, "")
	if after := cluster.Must(t, "", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.metadata.uid}"); after != before {
		t.Error("the webhook configuration was deleted and made again")
	}
	for line := range strings.SplitSeq(states(t), "\n") {
		if !strings.HasSuffix(line, "=Pending") && line != "ur-skipped=Skip" {
			t.Errorf("an UpdateRequest is left that Kyverno does not carry out: %s", line)
		}
	}
	if err := counts(t, "left", "0"); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Second)
	p.check(t, "there and back", 5*time.Second)
}

// There and back with one program stopped before the other starts: requests that policies select are refused for that time, since the webhooks
// fail closed, and served as soon as the other program is ready; no request passes that a policy refuses.
func TestStopped(t *testing.T) {
	kyverno := startStandIn(t, "kyverno-stopped-1")
	if err := cluster.Ephor.Beside(devcluster.Admission, kyverno.backend()); err != nil {
		t.Fatal(err)
	}
	cluster.Must(t, population, "apply", "--server-side", "--field-manager=helm", "--force-conflicts", "-f", "-")
	enforces := func(what string, want bool) {
		t.Helper()
		suite.Until(t, what, func() error {
			out, err := cluster.Try(t, strings.Replace(counted("refused"), "namespace: shop}", "namespace: shop, labels: {bad: x}}", 1), "create", "--dry-run=server", "-f", "-")
			if err == nil || strings.Contains(err.Error(), "label bad is not allowed") != want {
				return fmt.Errorf("%s, %v", out, err)
			}
			return nil
		})
	}
	enforces("the stand-in enforces", true)
	p := startProbe(t)
	kyverno.end()
	if err := cluster.Ephor.Beside(devcluster.Admission); err != nil {
		t.Fatal(err)
	}
	enforces("without a server the webhooks fail closed", false)
	admission := cluster.Start(t, devcluster.Admission, "--webhookSecretPaths=false")
	ready := time.Now() // Start waits for the readiness probe
	enforces("Ephor enforces", true)
	if d := time.Since(ready); d > 5*time.Second {
		t.Errorf("Ephor enforces %s after it is ready", d)
	}
	served(t)
	p.noneAdmitted(t, "there")

	suite.Stop(t, admission)
	enforces("after Ephor has stopped, its webhooks fail closed", false)
	again := startStandIn(t, "kyverno-stopped-2")
	if err := cluster.Ephor.Beside(devcluster.Admission, again.backend()); err != nil {
		t.Fatal(err)
	}
	enforces("the stand-in enforces again", true)
	served(t)
	p.noneAdmitted(t, "there and back")
	again.end()
}

// served waits until a clean request is admitted.
func served(t *testing.T) {
	t.Helper()
	suite.Until(t, "clean requests are admitted", func() error {
		_, err := cluster.Try(t, counted("clean"), "create", "--dry-run=server", "-f", "-")
		return err
	})
}

// noneAdmitted reports what was admitted that a policy refuses.
func (p *probe) noneAdmitted(t *testing.T, what string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%s: %d requests; clean ones failed for %s at most (%v)", what, p.asked, p.refused.Round(time.Millisecond), p.why)
	if len(p.admitted) > 0 {
		t.Errorf("%s: %d requests were admitted that a policy refuses: %v", what, len(p.admitted), p.admitted)
	}
}

// owned waits until the webhook configuration of resources has that owner, or none.
func owned(t *testing.T, owner string) {
	t.Helper()
	suite.Until(t, "the webhook configuration has the owner "+owner, func() error {
		got := cluster.Must(t, "", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.metadata.ownerReferences[*].name}")
		if got != owner {
			return fmt.Errorf("the owner is %q", got)
		}
		return nil
	})
}
