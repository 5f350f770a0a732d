package reports

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// Admission policies of the API server with the label are reported, for each binding, with their parameters.
func TestAdmissionPolicies(t *testing.T) {
	const ns = "report-native"
	namespace(t, ns)
	cluster.Must(t, "", "label", "namespace", ns, "env=prod")
	cluster.Must(t, configMap(ns, "subject", "")+configMap(ns, "limits", "kind: limits"), "apply", "-f", "-")
	const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: report-vap, labels: {reports.kyverno.io/enabled: "true"}, annotations: {policies.kyverno.io/severity: high}}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
    objectSelector: {matchExpressions: [{key: kind, operator: DoesNotExist}]}
  validations: [{expression: "params.metadata.name == 'limits' && object.metadata.?labels.team.hasValue()", message: a team is needed}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: report-vap-prod}
spec:
  policyName: report-vap
  validationActions: [Audit]
  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}
  paramRef: {name: limits, parameterNotFoundAction: Deny}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: report-vap-off, labels: {reports.kyverno.io/disabled: ""}}
spec:
  policyName: report-vap
  validationActions: [Audit]
  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}
  paramRef: {name: limits, parameterNotFoundAction: Deny}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: report-silent}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: report-map, labels: {reports.kyverno.io/enabled: "true"}}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"team": "a"}}}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: report-map-prod}
spec: {policyName: report-map, matchResources: {namespaceSelector: {matchLabels: {env: prod}}}}
`
	cluster.Apply(t, policies)
	cluster.Start(t, devcluster.Reports, "--mutatingAdmissionPolicyReports")
	said := func(want string) {
		t.Helper()
		suite.Until(t, "the report says "+want, func() error {
			r := reportOf(t, ns, "ConfigMap", "subject")
			var all []string
			if r != nil {
				for _, one := range r.Results {
					p := one.Properties
					all = append(all, fmt.Sprint(one.Source, " ", one.Policy, "/", one.Rule, " ", one.Result, " ", p["binding"]+p["mapBinding"], " ", p["process"], " ", one.Severity, " ", one.Message))
				}
			}
			if got := strings.Join(all, "\n"); got != want {
				return fmt.Errorf("it says\n%s", got)
			}
			return nil
		})
	}
	const mutates = "MutatingAdmissionPolicy report-map/report-map fail report-map-prod background scan  mutation is not applied"
	said(mutates + "\nValidatingAdmissionPolicy report-vap/report-vap fail report-vap-prod background scan high a team is needed")
	suite.Until(t, "an event tells of it", func() error {
		got := cluster.Must(t, "", "get", "events.events.k8s.io", "-A", "-o", `jsonpath={range .items[*]}{.regarding.kind} {.regarding.name} {.reason} {.reportingController} {.action}{"\n"}{end}`)
		if !strings.Contains(got, "ValidatingAdmissionPolicy report-vap PolicyViolation kyverno-scan Resource Passed") {
			return fmt.Errorf("there are\n%s", got)
		}
		return nil
	})
	cluster.Must(t, "", "label", "configmap", "subject", "-n", ns, "team=a")
	said("MutatingAdmissionPolicy report-map/report-map pass report-map-prod background scan  mutation is successfully applied\n" +
		"ValidatingAdmissionPolicy report-vap/report-vap pass report-vap-prod background scan high ")
	cluster.Must(t, "", "label", "mutatingadmissionpolicy", "report-map", "reports.kyverno.io/enabled-")
	said("ValidatingAdmissionPolicy report-vap/report-vap pass report-vap-prod background scan high ")
	cluster.Must(t, "", "delete", "validatingadmissionpolicybinding", "report-vap-prod", "report-vap-off")
	cluster.Must(t, "", "delete", "validatingadmissionpolicy", "report-vap")
	said("")
}
