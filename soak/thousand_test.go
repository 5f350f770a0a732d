package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
)

// thousandth returns one of the policies: a label on some kind, Enforce or Audit, failing open or closed; every tenth has match conditions,
// and therefore a webhook of its own.
func thousandth(n int) string {
	kinds := []string{"ConfigMap", "Secret", "Service", "Pod", "Deployment", "StatefulSet", "Job", "CronJob", "Ingress", "NetworkPolicy"}
	webhook := fmt.Sprintf("{failurePolicy: %s}", []string{"Fail", "Ignore"}[n/10%2])
	if n%10 == 9 {
		webhook = fmt.Sprintf("{failurePolicy: Fail, matchConditions: [{name: not-%d, expression: \"object.metadata.name != 'exempt-%d'\"}]}", n, n)
	}
	return fmt.Sprintf(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: policy-%04d}
spec:
  webhookConfiguration: %s
  rules:
  - name: label
    match: {any: [{resources: {kinds: [%s], namespaces: [team-%d]}}]}
    validate:
      failureAction: %s
      message: "the label team-%d is required"
      pattern: {metadata: {labels: {team-%d: "?*"}}}
`, n, webhook, kinds[n%10], n%50, map[bool]string{true: "Enforce", false: "Audit"}[enforces(n)], n, n)
}

func enforces(n int) bool { return n/20%2 == 0 }

// thousandthInCEL returns the same as a ValidatingPolicy. Policies for Secrets are not included: without the right to read Secrets for
// reports, which the chart does not grant, they do not become ready.
func thousandthInCEL(n int) string {
	resources := []string{
		"|configmaps", "|serviceaccounts", "|services", "|pods", "apps|deployments", "apps|statefulsets", "batch|jobs", "batch|cronjobs",
		"networking.k8s.io|ingresses", "networking.k8s.io|networkpolicies",
	}
	group, resource, _ := strings.Cut(resources[n%10], "|")
	conditions := ""
	if n%10 == 9 {
		conditions = fmt.Sprintf("matchConditions: [{name: not-%d, expression: \"object.metadata.name != 'exempt-%d'\"}]", n, n)
	}
	return fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: policy-%04d}
spec:
  failurePolicy: %s
  validationActions: [%s]
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-%d}}
    resourceRules:
    - {apiGroups: [%q], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%s]}
  %s
  validations:
  - expression: "'team-%d' in object.metadata.?labels.orValue({})"
    message: "the label team-%d is required"
`, n, []string{"Fail", "Ignore"}[n/10%2], map[bool]string{true: "Deny", false: "Audit"}[enforces(n)], n%50, group, resource, conditions, n, n)
}

var (
	clusterPolicies    = schema.GroupVersionResource{Group: "kyverno.io", Version: "v1", Resource: "clusterpolicies"}
	validatingPolicies = schema.GroupVersionResource{Group: "policies.kyverno.io", Version: "v1", Resource: "validatingpolicies"}
)

func TestThousandPolicies(t *testing.T) {
	thousandOf(t, clusterPolicies, thousandth, time.Minute, func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			m, ok := c.(map[string]any)
			return ok && m["type"] == "Ready" && m["status"] == "True"
		})
	})
}

func TestThousandPoliciesInCEL(t *testing.T) {
	thousandOf(t, validatingPolicies, thousandthInCEL, 30*time.Second, func(o *unstructured.Unstructured) bool {
		ready, _, _ := unstructured.NestedBool(o.Object, "status", "conditionStatus", "ready")
		return ready
	})
}

// Eight clients create a thousand policies. All become ready, the API server accepts the configurations, and the audit log counts Ephor's
// requests meanwhile.
func thousandOf(t *testing.T, resource schema.GroupVersionResource, policy func(n int) string, target time.Duration, isReady func(*unstructured.Unstructured) bool) {
	const clients, limit = 8, 1536 << 10
	count := times(1000)
	audit, flags, err := load.NewAudit(t.TempDir(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	p := install(t, flags...)
	replica := p.start(1)[0]
	dyn, err := dynamic.NewForConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Next(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	for k := range clients {
		wg.Go(func() {
			for n := k; n < count; n += clients {
				var o map[string]any
				if err := yaml.Unmarshal([]byte(policy(n)), &o); err != nil {
					panic(err)
				}
				if _, err := dyn.Resource(resource).Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
					mu.Lock()
					failed = append(failed, fmt.Sprintf("policy-%04d: %v", n, err))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	made := time.Since(begin)
	if len(failed) > 0 {
		t.Fatalf("%d policies were refused, such as %s", len(failed), failed[0])
	}
	suite.Until(p.T, "all are ready", func() error {
		list, err := dyn.Resource(resource).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready, waiting := 0, ""
		for _, o := range list.Items {
			switch {
			case !strings.HasPrefix(o.GetName(), "policy-"):
			case isReady(&o):
				ready++
			case waiting == "":
				waiting = fmt.Sprintf("%s has the status %s", o.GetName(), encode(o.Object["status"]))
			}
		}
		if ready < count {
			time.Sleep(200 * time.Millisecond)
			return fmt.Errorf("%d of %d are: %s", ready, count, waiting)
		}
		return nil
	})
	p.kubectl("create", "namespace", "team-0")
	last := count - 50 // every 50th is about ConfigMaps of team-0
	for !enforces(last) {
		last -= 50
	}
	suite.Until(p.T, "the first and the last are enforced", func() error {
		for _, n := range []int{0, last} {
			_, err := p.Kubectl(t.Context(), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: team-0}}"), "create", "--dry-run=server", "-f", "-")
			if want := fmt.Sprintf("the label team-%d is required", n); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("no %q in %v", want, err)
			}
		}
		return nil
	})
	took := time.Since(begin)
	tell(t, fmt.Sprintf("%d policies made by %d clients in", count, clients), made.Round(100*time.Millisecond))
	figure(t, fmt.Sprintf("%d policies ready and enforced", count), took.Round(100*time.Millisecond), fmt.Sprintf("within %.0f s", target.Seconds()), took < target)
	if mb, err := load.ResidentMB(replica.PID()); err == nil {
		tell(t, "memory", fmt.Sprintf("%.0f MB", mb))
	}

	sizes, webhooks := p.sizes()
	biggest, conditions := 0, 0
	for _, s := range sizes {
		biggest, conditions = max(biggest, s.bytes), max(conditions, s.conditions)
	}
	tell(t, fmt.Sprintf("webhooks in %d configurations", len(sizes)), webhooks)
	figure(t, "the biggest configuration", fmt.Sprintf("%d KiB", biggest>>10), "below 1536 KiB", biggest < limit)
	figure(t, "match conditions of a webhook, the most", conditions, "at most 64", conditions <= 64)

	time.Sleep(lasting(20 * time.Second)) // for requests that are still to come
	asked := map[string]int{}
	requests, err := audit.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range requests {
		asked[e.What()]++
	}
	total := len(requests)
	tell(t, "requests of ours to the API server", total)
	for _, what := range slices.SortedFunc(maps.Keys(asked), func(a, b string) int { return asked[b] - asked[a] }) {
		if asked[what] >= 10 {
			tell(t, "of them "+what, asked[what])
		}
	}
	// Each policy needs one write of its status; nothing may need several writes per policy.
	figure(t, "requests per policy", fmt.Sprintf("%.1f", float64(total)/float64(count)), "at most 5", total <= 5*count || short)
}

// size is the size of a stored webhook configuration.
type size struct{ bytes, conditions int }

func (p *installation) sizes() (out []size, webhooks int) {
	p.Helper()
	validating, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	for _, c := range validating.Items {
		s := size{bytes: len(encode(c))}
		for _, w := range c.Webhooks {
			s.conditions = max(s.conditions, len(w.MatchConditions))
		}
		out, webhooks = append(out, s), webhooks+len(c.Webhooks)
	}
	mutating, err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	for _, c := range mutating.Items {
		s := size{bytes: len(encode(c))}
		for _, w := range c.Webhooks {
			s.conditions = max(s.conditions, len(w.MatchConditions))
		}
		out, webhooks = append(out, s), webhooks+len(c.Webhooks)
	}
	return out, webhooks
}
