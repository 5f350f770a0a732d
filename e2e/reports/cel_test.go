package reports

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const celPolicy = `---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: NAME}
spec:
  validationActions: [Audit]
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: report-cel}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [RESOURCES]}]
  validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: a team is required}]
`

// ValidatingPolicies are scanned and get a status, whether they were stored before or after the start of the controllers.
func TestValidatingPolicies(t *testing.T) {
	const ns = "report-cel"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "bad", "")+configMap(ns, "good", "team: a"), "apply", "-f", "-")
	policy := func(name, resources string) string {
		return strings.NewReplacer("NAME", name, "RESOURCES", resources).Replace(celPolicy)
	}
	suite.Until(t, "the kind is served", func() error {
		_, err := cluster.Try(t, policy("cel-before", "configmaps"), "apply", "-f", "-")
		return err
	})
	t.Cleanup(func() { cluster.Must(t, "", "delete", "validatingpolicies", "--all") })
	cluster.Start(t, devcluster.Reports)
	says(t, ns, "bad", "cel-before", "", "fail")
	says(t, ns, "good", "cel-before", "", "pass")
	for _, one := range reportOf(t, ns, "ConfigMap", "bad").Results { // a scan evaluates all policies on an object at once
		if one.Policy == "targets" {
			t.Errorf("a result about a trigger: %+v", one)
			continue
		}
		if one.Source != "KyvernoValidatingPolicy" || one.Message != "a team is required" || one.Properties["process"] != "background scan" {
			t.Errorf("%+v", one)
		}
	}
	cluster.Must(t, policy("cel-later", "configmaps"), "apply", "-f", "-")
	says(t, ns, "bad", "cel-later", "", "fail")

	condition := func(name, kind, want string) {
		t.Helper()
		suite.Until(t, fmt.Sprintf("%s of %s says %q", kind, name, want), func() error {
			got, err := cluster.Try(t, "", "get", "validatingpolicy", name, "-o", `jsonpath={.status.conditionStatus.conditions[?(@.type=="`+kind+`")].message}`)
			if err != nil || got != want {
				return fmt.Errorf("it says %q, %v", got, err)
			}
			return nil
		})
	}
	condition("cel-before", "RBACPermissionsGranted", "Policy is ready for reporting.")
	condition("cel-later", "RBACPermissionsGranted", "Policy is ready for reporting.")

	// The status contains the generated policies. A correct status is not written again.
	cluster.Must(t, policy("cel-pods", "pods"), "apply", "-f", "-")
	condition("cel-pods", "RBACPermissionsGranted", "Policy is ready for reporting.")
	if out := cluster.Must(t, "", "get", "validatingpolicy", "cel-pods", "-o", "jsonpath={.status.autogen.configs.cronjobs.targets[0].resource}"); out != "cronjobs" {
		t.Errorf("the generated policies are %q", out)
	}
	version := func() string {
		return cluster.Must(t, "", "get", "validatingpolicy", "cel-pods", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	suite.Until(t, "the status is no longer written", func() error {
		before := version()
		cluster.Must(t, policy("cel-more", "services"), "apply", "-f", "-") // one more round of the leader
		condition("cel-more", "RBACPermissionsGranted", "Policy is ready for reporting.")
		cluster.Must(t, "", "delete", "validatingpolicy", "cel-more")
		if after := version(); after != before {
			return fmt.Errorf("version %s became %s", before, after)
		}
		return nil
	})
	cluster.Must(t, "", "delete", "validatingpolicy", "cel-before")
	says(t, ns, "bad", "cel-before", "", "")
}

const mutatingPolicy = `---
apiVersion: policies.kyverno.io/v1
kind: KIND
metadata: {NAME}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: report-mutating}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: none, expression: "object.metadata.name != 'none'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{team: object.metadata.name == 'odd' ? object.data.team : 'a'}}}"}
  auditAnnotations: [{key: name, valueExpression: "string(object.metadata.name)"}]
`

// targetsPolicy changes Secrets for ConfigMaps, and could not change a ConfigMap in this way.
const targetsPolicy = `---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: targets}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: report-mutating}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  targetMatchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [secrets]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{type: 'Opaque'}"}
`

// A scan reports the objects that a MutatingPolicy would change: they fail, and events report it. Unchanged objects pass, and objects that
// its conditions exclude have no result. A policy with targets has none about what triggers it.
func TestMutatingPolicies(t *testing.T) {
	const ns = "report-mutating"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "bad", "")+configMap(ns, "good", "team: a")+configMap(ns, "none", "")+configMap(ns, "odd", ""), "apply", "-f", "-")
	policy := func(kind, name string) string {
		return strings.NewReplacer("KIND", kind, "NAME", name).Replace(mutatingPolicy)
	}
	suite.Until(t, "the kind is served", func() error {
		_, err := cluster.Try(t, policy("MutatingPolicy", "name: label")+policy("NamespacedMutatingPolicy", "name: own, namespace: "+ns)+targetsPolicy, "apply", "-f", "-")
		return err
	})
	t.Cleanup(func() {
		cluster.Must(t, "", "delete", "mutatingpolicies", "--all")
		cluster.Must(t, "", "delete", "namespacedmutatingpolicies", "--all", "-n", ns)
	})
	cluster.Start(t, devcluster.Reports)
	for _, name := range []string{"label", ns + "/own"} {
		says(t, ns, "bad", name, "", "fail")
		says(t, ns, "good", name, "", "pass")
		says(t, ns, "none", name, "", "") // the policy is not about it
		says(t, ns, "odd", name, "evaluation", "error")
	}
	for _, one := range reportOf(t, ns, "ConfigMap", "bad").Results {
		if one.Source != "KyvernoMutatingPolicy" || one.Message != "mutation is not applied" || one.Properties["process"] != "background scan" || one.Properties["name"] != "bad" {
			t.Errorf("%+v", one)
		}
	}
	events := func(namespace, want string) {
		t.Helper()
		suite.Until(t, "there is an event "+want, func() error {
			const columns = `jsonpath={range .items[?(@.reportingController=="kyverno-scan")]}{.regarding.apiVersion} {.regarding.kind}/{.regarding.name} {.type} {.reason} {.action}: {.note}{"\n"}{end}`
			got, err := cluster.Try(t, "", "get", "events.events.k8s.io", "-n", namespace, "-o", columns)
			if err == nil && !strings.Contains(got, want+"\n") {
				err = fmt.Errorf("there are\n%s", got)
			}
			return err
		})
	}
	events("default", "policies.kyverno.io/v1beta1 MutatingPolicy/label Warning PolicyViolation Resource Passed: ConfigMap "+ns+"/bad: fail; mutation is not applied")
	events(ns, "policies.kyverno.io/v1beta1 NamespacedMutatingPolicy/own Warning PolicyViolation Resource Passed: ConfigMap "+ns+"/bad: fail; mutation is not applied")
	events(ns, "v1 ConfigMap/bad Warning PolicyViolation Resource Passed: policy label/ fail: mutation is not applied")
	events("default", "policies.kyverno.io/v1beta1 MutatingPolicy/label Warning PolicyViolation Resource Passed: ConfigMap "+ns+"/odd: [evaluation] error; failed to evaluate policy: no such key: data")

	// Reports follow changes of objects, and obsolete results are removed.
	cluster.Must(t, configMap(ns, "odd", "")+"data: {team: a}\n", "apply", "-f", "-")
	says(t, ns, "odd", "label", "", "fail")
	says(t, ns, "odd", "label", "evaluation", "")
	cluster.Must(t, "", "label", "configmap", "bad", "-n", ns, "team=a")
	says(t, ns, "bad", "label", "", "pass")
	cluster.Must(t, "", "delete", "mutatingpolicy", "label")
	says(t, ns, "odd", "label", "", "")
	says(t, ns, "good", ns+"/own", "", "pass")
}
