package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ephor-dev/ephor/config/crds"
	"github.com/ephor-dev/ephor/e2e/suite"
	"github.com/ephor-dev/ephor/internal/devcluster"
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

// A ValidatingPolicy is scanned by, and has a status, whether it was stored before the controller starts or after. Its kind may be
// defined while the controllers run.
func TestValidatingPolicies(t *testing.T) {
	const ns = "report-cel"
	for _, name := range crds.Names() {
		if strings.HasPrefix(name, "policies.kyverno.io_") {
			cluster.Must(t, string(crds.File(name)), "apply", "--server-side", "--force-conflicts", "-f", "-")
		}
	}
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
	for _, one := range reportOf(t, ns, "ConfigMap", "bad").Results {
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

	// The generated policies stand in the status, and a status that is right is not written again.
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
