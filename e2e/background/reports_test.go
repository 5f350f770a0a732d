package background

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const reportedPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: reported}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reported], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: made, namespace: reported, data: {data: {k: v}}}
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reported], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: copied, namespace: reported, clone: {namespace: reported, name: source}}
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reported], names: [t]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: reported, name: "target-*"}]
      patchStrategicMerge: {data: {by: "{{request.object.metadata.name}}"}}
`

const reportedLater = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: reported-later}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reported], names: [t]}}]}
    generate: {generateExisting: true, apiVersion: v1, kind: ConfigMap, name: later, namespace: reported, data: {data: {k: v}}}
`

const reportedTargets = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: reported-targets}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces], resourceNames: [reported-trigger]}]
  targetMatchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: reported}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps], resourceNames: [target-1, target-2]}]
  targetMatchConditions: [{name: one, expression: "object.metadata.name == 'target-1'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{data: {'mutated': 'yes'}}"}
`

const scannedBeside = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: reported-beside}
spec:
  validationActions: [Audit]
  evaluation: {admission: {enabled: false}}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: reported}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [target-1]}]
  validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: no team}]
`

// The report about the trigger contains one result for each executed rule, and metrics count the results.
func TestReportsAndMetrics(t *testing.T) {
	r := start(t)
	taker := cluster.Start(t, devcluster.Reports)
	namespaces(t, "reported")
	target := create(t, configMap("reported", "target-1", nil, nil)).UID
	skipped := create(t, configMap("reported", "target-2", nil, nil)).UID
	apply(t, reportedPolicy)
	suite.Until(t, "the reports controller takes results", func() error {
		if got := cluster.Must(t, "", "get", "lease", "kyverno-reports-controller", "-n", suite.Namespace, "--ignore-not-found", "-o", "jsonpath={.metadata.annotations}"); got == "" {
			return fmt.Errorf("its Lease says nothing")
		}
		return nil
	})
	uid := create(t, configMap("reported", "t", nil, nil)).UID
	about := func(uid types.UID, want ...string) {
		t.Helper()
		suite.Until(t, "the report has the results", func() error {
			text := cluster.Must(t, "", "get", "policyreport", string(uid), "-n", "reported", "--ignore-not-found", "-o", `jsonpath={range .results[*]}{.policy}/{.rule} {.result} {.message}{.properties.generated-resources}{.properties.patched-target}{"\n"}{end}`)
			for _, w := range want {
				if strings.Count(text, w) != 1 {
					return fmt.Errorf("%q is not once in\n%s", w, text)
				}
			}
			return nil
		})
	}
	reported := func(want ...string) { t.Helper(); about(uid, want...) }
	reported("reported/make pass /v1, Kind=ConfigMap Name=made Namespace=reported", "reported/copy error source resource v1/ConfigMap/reported/copied not found", "reported/change pass", "Kind=ConfigMap Name=target-1 Namespace=reported; /v1, Kind=ConfigMap Name=target-2")
	create(t, configMap("reported", "source", nil, nil))
	reported("reported/copy pass /v1, Kind=ConfigMap Name=copied Namespace=reported")
	apply(t, reportedLater) // no request triggers this policy
	reported("reported-later/make pass /v1, Kind=ConfigMap Name=later Namespace=reported")
	drained(t)

	// Each target of a MutatingPolicy has its own result, in addition to that of the trigger, unless it is skipped. Scans keep these
	// results: another policy causes the scan of ConfigMaps here.
	celApply(t, "validatingpolicies", scannedBeside)
	about(target, "reported-beside/ fail no team")
	celApply(t, "mutatingpolicies", reportedTargets)
	namespaces(t, "reported-trigger")
	has(t, "reported", "target-1", "mutated", "yes")
	about(target, "reported-targets/ pass success", "reported-beside/ fail no team")
	change(t, "reported", "target-1", func(o *corev1.ConfigMap) { o.Labels = map[string]string{"team": "a"} })
	about(target, "reported-targets/ pass success", "reported-beside/ pass success")
	if got := cluster.Must(t, "", "get", "policyreport", string(skipped), "-n", "reported", "--ignore-not-found"); got != "" {
		t.Errorf("a target that was passed over has a report:\n%s", got)
	}
	drained(t)

	shows(t, suite.Metrics(t, taker.MetricsAddr), [][]string{
		{"kyverno_controller_reconcile_total", `controller_name="aggregate-report-controller"`},
		{"kyverno_controller_reconcile_total", `controller_name="resource-report-controller"`},
		{"kyverno_controller_reconcile_total", `controller_name="background-scan-controller"`},
		{"kyverno_controller_reconcile_total", `controller_name="exceptions-controller"`},
	})
	shows(t, suite.Metrics(t, r.MetricsAddr), [][]string{
		{"kyverno_policy_results_total", `rule_name="make"`, `rule_type="generate"`, `rule_result="pass"`, `resource_request_operation="create"`, `rule_execution_cause="background_scan"`},
		{"kyverno_policy_results_total", `rule_name="change"`, `rule_type="mutate"`, `rule_result="pass"`},
		{"kyverno_policy_execution_duration_seconds_count", `rule_name="make"`},
		{"kyverno_controller_reconcile_total", `controller_name="background-controller"`},
		{"kyverno_controller_reconcile_total", `controller_name="config-controller"`},
		{"kyverno_controller_requeue_total", `controller_name="background-controller"`, `num_requeues="1"`},
		{"kyverno_controller_reconcile_total", `controller_name="kyverno-events"`},
		{"kyverno_controller_reconcile_total", `controller_name="policy-controller"`},
		{"kyverno_policy_rule_info_total", `rule_name="make"`, `rule_type="generate"`},
		{"kyverno_client_queries_total", `client_type="dynamic"`, `operation="create"`, `resource_kind="configmaps"`},
		{"kyverno_client_queries_total", `client_type="kyverno"`, `operation="delete"`, `resource_kind="UpdateRequest"`},
	})
}

// shows checks that, for each entry, some line of a page of metrics contains all its texts.
func shows(t *testing.T, page string, wants [][]string) {
	t.Helper()
	for _, want := range wants {
		found := false
		for line := range strings.Lines(page) {
			all := true
			for _, w := range want {
				all = all && strings.Contains(line, w)
			}
			found = found || all
		}
		if !found {
			t.Errorf("no metric with %q", want)
		}
	}
}
