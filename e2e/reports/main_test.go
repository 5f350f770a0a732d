package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/config/crds"
	"ephor.invalid/ephor/e2e/suite"
)

// One control plane with one admission controller serves all tests of the package. Each test starts its own reports controllers.
var cluster suite.Cluster

// moreRights are the rights that the chart grants with openreports.enabled and features.mutatingAdmissionPolicyReports.enabled, since tests
// enable these features with flags.
const moreRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reports-tests, labels: {rbac.kyverno.io/aggregate-to-reports-controller: "true"}}
rules:
- {apiGroups: [openreports.io], resources: [reports, clusterreports], verbs: [create, delete, deletecollection, get, list, patch, update, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingadmissionpolicies, mutatingadmissionpolicybindings], verbs: [get, list, watch]}
`

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Values: "e2e", Audited: true, Setup: func(ctx context.Context) error {
		for _, name := range crds.Names() {
			if strings.HasPrefix(name, "openreports.io_") {
				if _, err := cluster.Kubectl(ctx, crds.File(name), "apply", "--server-side", "-f", "-"); err != nil {
					return err
				}
			}
		}
		if _, err := cluster.Kubectl(ctx, []byte(moreRights), "apply", "-f", "-"); err != nil {
			return err
		}
		_, err := cluster.Ephor.StartAdmission(ctx)
		return err
	}}))
}

// namespace creates a Namespace for a test and deletes it afterwards.
func namespace(t *testing.T, name string) {
	t.Helper()
	cluster.Namespace(t, name)
}

// apply applies policies, waits until all are Ready, and deletes them after the test.
func apply(t *testing.T, policies string) {
	t.Helper()
	cluster.Apply(t, policies)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicies", "--all")
}

// configMap returns a ConfigMap with labels, such as "team: a".
func configMap(ns, name, labels string) string {
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: " + ns + ", labels: {" + labels + "}}\n"
}

// reportOf returns the report about an object of the kind, or nil.
func reportOf(t *testing.T, ns, kind, name string) *policyreport.PolicyReport {
	t.Helper()
	args := []string{"get", "policyreports", "-n", ns, "-o", "json"}
	if ns == "" {
		args = []string{"get", "clusterpolicyreports", "-o", "json"}
	}
	var list policyreport.PolicyReportList // both kinds have the same content
	if err := json.Unmarshal([]byte(cluster.Must(t, "", args...)), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if s := list.Items[i].Scope; s != nil && s.Kind == kind && s.Name == name {
			return &list.Items[i]
		}
	}
	return nil
}

// result returns the result of a rule in a report, such as "fail"; empty if there is none.
func result(r *policyreport.PolicyReport, policy, rule string) string {
	if r != nil {
		for i := range r.Results {
			if r.Results[i].Policy == policy && r.Results[i].Rule == rule {
				return string(r.Results[i].Result)
			}
		}
	}
	return ""
}

// says waits until the report about a ConfigMap has the result of a rule; "" for none.
func says(t *testing.T, ns, name, policy, rule, want string) {
	t.Helper()
	suite.Until(t, fmt.Sprintf("the report about %s/%s says %q of %s/%s", ns, name, want, policy, rule), func() error {
		if got := result(reportOf(t, ns, "ConfigMap", name), policy, rule); got != want {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}

// evaluated returns the number of results of a policy that scans of a replica have produced.
func evaluated(t *testing.T, metricsAddr, policy string) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(suite.Metrics(t, metricsAddr)) {
		if strings.HasPrefix(line, "kyverno_policy_results_total{") && strings.Contains(line, `policy_name="`+policy+`"`) && strings.Contains(line, `"background_scan"`) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			if err != nil {
				t.Fatal(err)
			}
			n += int(v)
		}
	}
	return n
}

// gone waits until a Namespace has no reports.
func gone(t *testing.T, ns string) {
	t.Helper()
	suite.Until(t, "no report is left", func() error {
		if left := strings.TrimSpace(cluster.Must(t, "", "get", "policyreports,ephemeralreports", "-n", ns, "-o", "name")); left != "" {
			return fmt.Errorf("there are\n%s", left)
		}
		return nil
	})
}
