package trust

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// T1: reviews that the API server did not send are not answered, and have no effect.

const t1Policies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t1-generate}
spec:
  background: false
  rules:
  - name: binding
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: RoleBinding
      name: t1-owner
      namespace: "{{ request.object.metadata.name }}"
      data:
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
        subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "{{ request.userInfo.username }}"}]
---
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: t1-fine, namespace: victim}
spec:
  webhookConfiguration: {matchConditions: [{name: named, expression: "object.metadata.name == 'fine'"}]}
  rules:
  - name: never
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Enforce, message: never, deny: {}}
`

// t1Forged is a review of a Namespace that is not being created.
const t1Forged = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"t1-forged","operation":"CREATE",
"kind":{"version":"v1","kind":"Namespace"},"resource":{"version":"v1","resource":"namespaces"},"requestKind":{"version":"v1","kind":"Namespace"},
"requestResource":{"version":"v1","resource":"namespaces"},"name":"victim","userInfo":{"username":"mallory","groups":["system:authenticated"]},
"object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"victim","uid":"11111111-2222-3333-4444-555555555555"}}}}`

// port posts a body to the admission controller's Service, as a Pod of a tenant could, and returns the status.
func port(t testing.TB, service, path, body string) int {
	t.Helper()
	address := cluster.Must(t, "", "get", "service", service, "-n", suite.Namespace, "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
	client := &http.Client{Timeout: devcluster.Patience(), Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // TLS verification is not tested here
	}}
	res, err := client.Post("https://"+address+path, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// standing returns the paths in the stored configurations of both kinds; with services, only those of their webhooks.
func standing(t testing.TB, services ...string) (paths []string) {
	t.Helper()
	out := cluster.Must(t, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations",
		"-o", `jsonpath={range .items[*].webhooks[*]}{.clientConfig.service.name} {.clientConfig.service.path}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		service, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if len(services) == 0 || slices.Contains(services, service) {
			paths = append(paths, path)
		}
	}
	return paths
}

// secretPath returns the path in the configurations that ends in the plain path; empty if there is none.
func secretPath(t testing.TB, plain string) string {
	t.Helper()
	for _, path := range standing(t) {
		if strings.HasSuffix(path, plain) {
			return path
		}
	}
	return ""
}

func t1Start(t testing.TB) {
	t.Helper()
	cluster.Apply(t, t1Policies)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy/t1-generate")
	cluster.Must(t, "", "wait", "--for=condition=Ready", "policy/t1-fine", "-n", "victim")
	suite.Eventually(t, func() error {
		if secretPath(t, "/validate/fail/finegrained/victim/t1-fine") == "" || secretPath(t, "/validate/fail") == "" {
			return fmt.Errorf("the webhooks of the policies are not written: %s", standing(t))
		}
		return nil
	})
}

// A forged review gets no answer at any path, and causes no work.
func TestT1ForgedReview(t *testing.T) {
	t1Start(t)
	work := func() string { // what another test sent to the right path may be there
		return cluster.Must(t, "", "get", "updaterequests", "-n", suite.Namespace, "-o", `jsonpath={.items[?(@.spec.resource.name=="victim")].metadata.name}`)
	}
	before := work()
	none := strings.Repeat("0", 64)
	for _, plain := range []string{
		"/validate", "/validate/fail", "/validate/ignore", "/validate/fail/finegrained/victim/t1-fine", "/mutate", "/mutate/fail", "/mutate/ignore",
		"/policyvalidate", "/policymutate", "/exceptionvalidate", "/globalcontextvalidate", "/verifymutate",
	} {
		for _, path := range []string{plain, "/" + none + plain, "/" + none[1:] + plain, plain + "/" + none} {
			if status := port(t, "kyverno-svc", path, t1Forged); status != http.StatusNotFound {
				t.Errorf("a forged review at %s gets %d, not 404", path, status)
			}
		}
	}
	if after := work(); after != before {
		t.Errorf("work comes of the forged review: %s, before %s", after, before)
	}
}

// The secret of one path opens no other path.
func TestT1OneSegmentOnePath(t *testing.T) {
	t1Start(t)
	routes := []string{"/validate/fail", "/validate/fail/finegrained/victim/t1-fine", "/policyvalidate", "/exceptionvalidate", "/verifymutate"}
	more := []string{"/validate", "/mutate/fail", "/validate/fail/finegrained/victim/other", "/validate/fail/finegrained/t1-fine", "/validate/ignore/finegrained/victim/t1-fine"}
	for _, own := range routes {
		path := secretPath(t, own)
		segment := strings.TrimSuffix(path, own)
		if !regexp.MustCompile(`^/[0-9a-f]{64}$`).MatchString(segment) {
			t.Fatalf("the path of %s has no segment: %q", own, path)
		}
		for _, other := range append(more, routes...) {
			status := port(t, "kyverno-svc", segment+other, t1Forged)
			if opened := status != http.StatusNotFound; opened != (other == own) {
				t.Errorf("the segment of %s at %s: %d", own, other, status)
			}
		}
	}
}

// A rotation invalidates the previous paths, without failed reviews of the API server.
func TestT1Rotation(t *testing.T) {
	cluster.Apply(t, suite.RequireTeam)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	finish := cluster.Load(t, 2)
	old := secretPath(t, "/validate/fail")
	cluster.Must(t, "", "annotate", "secret", "ephor-webhook-routes", "-n", suite.Namespace, "--overwrite", "ephor.dev/rotate=now")
	suite.Until(t, "the configurations carry other segments", func() error {
		if secretPath(t, "/validate/fail") == old {
			return fmt.Errorf("the path is the old one")
		}
		return nil
	})
	suite.Until(t, "the old path ends", func() error {
		if status := port(t, "kyverno-svc", old, t1Forged); status != http.StatusNotFound {
			return fmt.Errorf("the old path is answered: %d", status)
		}
		return nil
	})
	if status := port(t, "kyverno-svc", secretPath(t, "/validate/fail"), t1Forged); status != http.StatusOK {
		t.Errorf("the new path gets %d", status)
	}
	if load := finish(); load.Failed > 0 {
		t.Errorf("%d of %d requests were not decided as the policy says", load.Failed, load.Asked)
	}
}

// If a webhook cannot be called, the API server shows its URL to the requester. The URL is invalid afterwards.
func TestT1FailedCall(t *testing.T) {
	cluster.Apply(t, strings.ReplaceAll(suite.RequireTeam, "[default]", "[default, mallory]"))
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	suite.Stop(t, admission)
	var shown string
	suite.Until(t, "a call fails", func() error {
		_, err := asMallory(t, "", "create", "configmap", "t1", "--dry-run=server")
		if err == nil {
			return fmt.Errorf("it was let through")
		}
		if m := regexp.MustCompile(`https://[^/]*(/[^?"]*/validate/fail)\?`).FindStringSubmatch(err.Error()); m != nil {
			shown = m[1]
			return nil
		}
		return fmt.Errorf("no URL is shown: %w", err)
	})
	t1Restart(t)
	suite.Until(t, "the shown path is of no use", func() error {
		if status := port(t, "kyverno-svc", shown, t1Forged); status != http.StatusNotFound {
			return fmt.Errorf("the path that mallory was shown is answered: %d", status)
		}
		return nil
	})
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
}

// t1Restart restarts the admission controller for the following tests.
func t1Restart(t testing.TB) {
	t.Helper()
	var err error
	if admission, err = startAdmission(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// While Kyverno's configurations exist, Ephor answers their paths. After it has written its own, it does not.
func TestT1PathsOfKyverno(t *testing.T) {
	cluster.Apply(t, suite.RequireTeam)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	suite.Stop(t, admission)
	for _, kind := range []string{"validating", "mutating"} {
		var list struct {
			Items []map[string]any `json:"items"`
		}
		if err := json.Unmarshal([]byte(cluster.Must(t, "", "get", kind+"webhookconfigurations", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			webhooks, _ := item["webhooks"].([]any)
			for _, w := range webhooks {
				service := w.(map[string]any)["clientConfig"].(map[string]any)["service"].(map[string]any)
				if service["name"] != "kyverno-svc" {
					continue // of the cleanup controller, which does not run now
				}
				service["path"] = regexp.MustCompile(`^/[0-9a-f]{64}/`).ReplaceAllString(service["path"].(string), "/")
			}
			text, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			cluster.Must(t, string(text), "replace", "-f", "-")
		}
	}
	if status := secretPath(t, "/validate/fail"); status != "/validate/fail" {
		t.Fatalf("the path is %s", status)
	}
	t1Restart(t)
	if status := port(t, "kyverno-svc", "/validate/fail", t1Forged); status != http.StatusOK {
		t.Errorf("the path of a configuration that stood a moment ago gets %d", status)
	}
	finish := cluster.Load(t, 2)
	suite.Until(t, "the configurations carry segments", func() error {
		for _, path := range standing(t) {
			if !regexp.MustCompile(`^/[0-9a-f]{64}/`).MatchString(path) {
				return fmt.Errorf("the path %s stands", path)
			}
		}
		return nil
	})
	suite.Until(t, "the plain path ends", func() error {
		if status := port(t, "kyverno-svc", "/validate/fail", t1Forged); status != http.StatusNotFound {
			return fmt.Errorf("the plain path is answered: %d", status)
		}
		return nil
	})
	if load := finish(); load.Failed > 0 {
		t.Errorf("%d of %d requests were not decided as the policy says", load.Failed, load.Asked)
	}
	metrics := suite.Metrics(t, admission.MetricsAddr)
	if !regexp.MustCompile(`(?m)^ephor_webhook_path_requests_total\{[^}]*result="plain"[^}]*\} [1-9]`).MatchString(metrics) {
		t.Error("reviews at plain paths are not counted")
	}
	suite.Eventually(t, func() error {
		events := cluster.Must(t, "", "get", "events", "-A", "--field-selector=reason=PlainWebhookPath", "-o", "jsonpath={.items[*].note}{.items[*].message}")
		if !strings.Contains(events, "secret segment") {
			return fmt.Errorf("no event tells of the plain paths: %q", events)
		}
		return nil
	})
}

// No log, event, metric or status contains the keys.
func TestT1KeysAreNotPublished(t *testing.T) {
	t1Start(t)
	path := secretPath(t, "/validate/fail")
	segment := strings.TrimSuffix(path, "/validate/fail")[1:]
	if status := port(t, "kyverno-svc", path, `{"request":{}}`); status == http.StatusNotFound || status == http.StatusOK {
		t.Errorf("a broken review gets %d", status)
	}
	key := cluster.Must(t, "", "get", "secret", "ephor-webhook-routes", "-n", suite.Namespace, "-o", "jsonpath={.data}")
	var data map[string]string
	if err := json.Unmarshal([]byte(key), &data); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{
		"log": admission.Tail(1 << 20), "metrics": suite.Metrics(t, admission.MetricsAddr),
		"events": cluster.Must(t, "", "get", "events", "-A", "-o", "yaml"),
	}
	for name, text := range places {
		if strings.Contains(text, segment) {
			t.Errorf("%s: the segment is shown", name)
		}
		for entry, value := range data {
			if entry != "current" && strings.Contains(text, value) {
				t.Errorf("%s: the key is shown", name)
			}
		}
	}
}
