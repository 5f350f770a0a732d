package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const metricsPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: metrics-e2e}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [Pod], names: [metrics-*]}}]}
    validate:
      failureAction: Enforce
      message: a team is required
      pattern: {metadata: {labels: {team: "?*"}}}
  - name: broken
    match: {any: [{resources: {kinds: [Pod], names: [metrics-*]}}]}
    context: [{name: missing, configMap: {name: metrics-missing, namespace: default}}]
    validate:
      failureAction: Audit
      deny: {conditions: {all: [{key: "{{ missing.data.x }}", operator: Equals, value: y}]}}
---
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: metrics-e2e, namespace: default}
spec:
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [Pod], names: [metrics-*]}}]}
    validate:
      failureAction: Audit
      message: an owner is required
      pattern: {metadata: {labels: {owner: "?*"}}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: metrics-e2e}
spec:
  validationActions: [Audit]
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    objectSelector: {matchExpressions: [{key: team, operator: Exists}]}
  validations: [{expression: "has(object.metadata.labels.owner)", message: an owner is required}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: metrics-e2e}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    objectSelector: {matchExpressions: [{key: team, operator: Exists}]}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/seen', value: 'yes'}]"}
---
# Its condition has no value, since the Pods have no annotation.
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: metrics-e2e, namespace: default}
spec:
  policyRefs: [{name: metrics-e2e, kind: ValidatingPolicy}]
  matchConditions: [{name: approved, expression: "object.metadata.annotations['approved'] == 'yes'"}]
`

// Every query of the dashboard, of the alerts and of docs/operating/metrics.md returns data in Prometheus's own engine, for two pages of
// metrics of the running controller. Changes of the metrics ConfigMap take effect.
func TestMetrics(t *testing.T) {
	applyPolicies(t, policyFile(t, metricsPolicies))
	pod := func(i int, labels string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: metrics-%d, namespace: default, labels: {%s}}\nspec: {containers: [{name: c, image: x}]}\n", i, labels)
	}
	made := 0
	// work creates Pods until the page counts more results than given.
	work := func(results int) string {
		t.Helper()
		var page string
		eventually(t, func() error {
			made++
			must(t, pod(made, "team: a"), "create", "-f", "-")
			must(t, "", "delete", "pod", "-n", "default", "--force", "--grace-period=0", fmt.Sprintf("metrics-%d", made))
			if _, err := kubectl(t, pod(made, "team: ''"), "create", "--dry-run=server", "-f", "-"); err == nil {
				return errAdmitted
			}
			page = scrape(t)
			for _, want := range []string{
				`kyverno_policy_results_total{dry_run="false",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_background_mode="true",policy_name="metrics-e2e",policy_namespace="default",policy_type="namespaced",policy_validation_mode="audit",resource_kind="Pod",resource_namespace="default",resource_request_operation="create",rule_execution_cause="admission_request",rule_name="owner",rule_result="fail",rule_type="validate"} `,
				`rule_name="broken",rule_result="error"`, `dry_run="true"`, `kyverno_policy_changes_total{`,
				`kyverno_validating_policy_results_total{execution_cause="admission_request"`, `kyverno_mutating_policy_results_total{execution_cause="admission_request"`,
				`kyverno_deprecated_api_requests_total{`, `ephor_policy_exception_errors_total{`,
			} {
				if !strings.Contains(page, want) {
					return fmt.Errorf("there is no %s", want)
				}
			}
			if n := value(page, `rule_name="owner",rule_result="fail"`); n <= results {
				return fmt.Errorf("%d results", n)
			}
			return nil
		})
		return page
	}
	first := work(0)
	second := work(value(first, `rule_name="owner",rule_result="fail"`) + 1)

	dir := t.TempDir()
	var pages []string
	for i, page := range []string{first, second} {
		file := filepath.Join(dir, fmt.Sprintf("page-%d.txt", i))
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, file)
	}
	tool := filepath.Join(t.TempDir(), "promql") // another package may build and run the tool at the same time
	build := exec.Command("go", "build", "-C", filepath.Join(root, "hack", "tools", "promql"), "-o", tool, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	recorded := filepath.Join(root, "hack", "tools", "promql", "testdata")
	ask := exec.Command(tool, "-pages", "admission="+strings.Join(pages, ","),
		"-pages", "recording="+filepath.Join(recorded, "decisions-1.txt")+","+filepath.Join(recorded, "decisions-2.txt"),
		"-pages", "reports="+filepath.Join(recorded, "reports-1.txt")+","+filepath.Join(recorded, "reports-2.txt"),
		filepath.Join(root, "charts", "ephor", "dashboards", "ephor.json"), filepath.Join(root, "charts", "ephor", "alerts", "ephor.yaml"),
		filepath.Join(root, "docs", "operating", "metrics.md"))
	out, err := ask.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}

	// The check rejects a wrong query.
	wrong := filepath.Join(dir, "wrong.md")
	if err := os.WriteFile(wrong, []byte("```promql\nkyverno_policy_results{rule_result=\"none\"}\n\nsum(\n```\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command(tool, append(slices.Clone(ask.Args[1:5]), wrong)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no data") || !strings.Contains(string(out), "parse error") {
		t.Errorf("queries without data are not found: %v\n%s", err, out)
	}

	// Changes of the ConfigMap remove a label and a metric, and restore them.
	name := "kyverno-metrics"
	kept, err := kubectl(t, "", "get", "configmap", name, "-n", "kyverno", "--ignore-not-found", "-o", "jsonpath={.data}")
	if err != nil {
		t.Fatal(err)
	}
	patch := `{"data":{"metricsExposure":"{\"kyverno_policy_results\":{\"disabledLabelDimensions\":[\"rule_name\"],\"bareName\":false},\"kyverno_http_requests\":{\"enabled\":false}}"}}`
	if kept == "" {
		must(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","namespace":"kyverno"}}`, "create", "-f", "-")
		t.Cleanup(func() { afterwards(t, "delete", "configmap", name, "-n", "kyverno") })
	} else {
		t.Cleanup(func() {
			afterwards(t, "patch", "configmap", name, "-n", "kyverno", "--type=json", "-p", `[{"op":"replace","path":"/data","value":`+kept+`}]`)
		})
	}
	must(t, "", "patch", "configmap", name, "-n", "kyverno", "--type=merge", "-p", patch)
	eventually(t, func() error {
		must(t, pod(0, "team: a"), "create", "--dry-run=server", "-f", "-")
		page := scrape(t)
		switch {
		case !strings.Contains(page, "kyverno_policy_results_total{"):
			return fmt.Errorf("there are no results")
		case strings.Contains(page, "\nkyverno_policy_results{"):
			return fmt.Errorf("the bare name is still there")
		case strings.Contains(page, "\nkyverno_http_requests_total"):
			return fmt.Errorf("a metric that is off is still there")
		}
		for _, line := range strings.Split(page, "\n") {
			if strings.HasPrefix(line, "kyverno_policy_results_total{") && strings.Contains(line, "rule_name") {
				return fmt.Errorf("the label is still there: %s", line)
			}
		}
		return nil
	})
}

// afterwards runs kubectl after the end of the test's own context.
func afterwards(t *testing.T, args ...string) {
	t.Helper()
	if _, err := cluster.Kubectl(context.Background(), nil, args...); err != nil {
		t.Error(err)
	}
}

// scrape returns the controller's page of metrics.
func scrape(t *testing.T) string { return suite.Metrics(t, replica.MetricsAddr) }

// value returns the number at the end of the first line that contains text; 0 if there is none.
func value(page, text string) int {
	for _, line := range strings.Split(page, "\n") {
		if strings.Contains(line, text) {
			var n int
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			return n
		}
	}
	return 0
}

// With the flags for TLS, a replica serves its metrics with a certificate that it creates, and sends the traces of its reviews to a
// collector.
func TestMetricsOverTLSAndTraces(t *testing.T) {
	applyPolicies(t, policyFile(t, metricsPolicies))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	spans := &spans{names: map[string]bool{}}
	collector := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(collector, spans)
	go func() { _ = collector.Serve(listener) }()
	defer collector.Stop()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	second, err := cluster.Ephor.StartAdmission(t.Context(), "--enablePolicyException", "--exceptionNamespace=*",
		"--metricsCASecretName=metrics-ca-e2e", "--metricsTLSSecretName=metrics-tls-e2e", "--metricsServerIP=127.0.0.1",
		"--enableTracing", "--tracingAddress=127.0.0.1", "--tracingPort="+port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Stop(30 * time.Second) }()
	defer afterwards(t, "delete", "secret", "-n", "kyverno", "--ignore-not-found", "metrics-ca-e2e", "metrics-tls-e2e")
	eventually(t, func() error {
		encoded, err := kubectl(t, "", "get", "secret", "-n", "kyverno", "metrics-ca-e2e", "-o", `jsonpath={.data.tls\.crt}`)
		if err != nil {
			return err
		}
		ca, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("https://" + second.MetricsAddr + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(page), `ephor_certificate_expiry_timestamp_seconds{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",secret="metrics-tls-e2e"}`) {
			err = errors.New("the certificate is not among the metrics")
		}
		return err
	})
	// The API server keeps its connection to the first replica, so the test calls this one directly.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "traced", "operation": "CREATE", "dryRun": true,
		"kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
		"name": "metrics-traced", "namespace": "default", "userInfo": {"username": "somebody"},
		"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "metrics-traced", "namespace": "default", "labels": {"team": "a"}}}}}`
	eventually(t, func() error {
		path, err := cluster.Ephor.WebhookPath(t.Context(), devcluster.Admission, "/validate/fail")
		if err != nil {
			return err
		}
		response, err := client.Post("https://"+second.Addr+path+"?timeout=10s", "application/json", strings.NewReader(review))
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return spans.all("ADMISSION POST /validate/fail", "POLICY /metrics-e2e", "RULE team")
	})
}

// spans is a collector that records the names of spans.
type spans struct {
	collectortrace.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string]bool
}

func (s *spans) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, span := range ss.Spans {
				s.names[span.Name] = true
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func (s *spans) all(want ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range want {
		if !s.names[name] {
			return fmt.Errorf("there is no span %s among %v", name, slices.Sorted(maps.Keys(s.names)))
		}
	}
	return nil
}
