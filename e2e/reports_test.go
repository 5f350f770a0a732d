package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/report"
)

// TestReports follows the guide: apply a policy in Audit, read the reports with the usual commands, correct and delete objects.
func TestReports(t *testing.T) {
	const ns = "reports"
	cluster.Namespace(t, ns)
	must(t, labelled("new", ""), "apply", "-n", ns, "-f", "-")
	must(t, labelled("good", "{team: a}"), "apply", "-n", ns, "-f", "-")

	r := cluster.Start(t, devcluster.Reports)
	policies := policyFile(t, reportsPolicy)
	applyPolicies(t, policies)

	// Each resource has one report, named by the UID, owned by the resource, and deleted with it.
	var bad policyreport.PolicyReport
	eventually(t, func() (err error) { bad, err = reportOf(t, ns, "new"); return err })
	uid := strings.TrimSpace(must(t, "", "get", "configmap", "new", "-n", ns, "-o", "jsonpath={.metadata.uid}"))
	if len(bad.OwnerReferences) != 1 || bad.Name != uid || string(bad.OwnerReferences[0].UID) != uid || bad.OwnerReferences[0].Kind != "ConfigMap" ||
		bad.Labels["app.kubernetes.io/managed-by"] != "kyverno" || bad.Scope == nil || bad.Scope.Name != "new" || bad.Scope.Namespace != ns {
		t.Errorf("the report is %+v", bad)
	}
	if bad.Summary != (policyreport.Summary{Fail: 1, Warn: 1, Skip: 1}) {
		t.Errorf("summary %+v", bad.Summary)
	}
	first := bad.Results[1] // results are sorted by policy and rule
	if first.Policy != "e2e-reports" || first.Rule != "team" || first.Result != "fail" || !first.Scored || first.Severity != "high" ||
		first.Category != "Sample" || first.Source != "kyverno" || first.Properties["process"] != "background scan" || first.Timestamp.Seconds == 0 ||
		first.Message != "validation error: label team is required. rule team failed at path /metadata/labels/" {
		t.Errorf("result %+v", first)
	}

	// The commands of the guide.
	if out := must(t, "", "get", "polr", "-A", "-o", "wide"); !strings.Contains(out, "KIND") || !strings.Contains(out, "PASS") || !strings.Contains(out, "new") {
		t.Error(out)
	}
	if out := must(t, "", "get", "polr", uid, "-n", ns, "-o", `jsonpath={.results[?(@.result=="fail")].rule}`); out != "team" {
		t.Errorf("%q", out)
	}
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "clusterpolicyreport", "-o", "wide")
		if err != nil || !strings.Contains(out, "Namespace") {
			return fmt.Errorf("cluster reports: %s %v", out, err)
		}
		return nil
	})
	eventually(t, func() error { return jq(t, ns, 1, 1) })
	eventually(t, func() error {
		notes := must(t, "", "get", "events", "-n", ns, "-o", `jsonpath={range .items[*]}{.reason} {.source.component}{.reportingComponent} {.message}{"\n"}{end}`)
		if !strings.Contains(notes, "PolicyViolation kyverno-scan policy e2e-reports/team fail: validation error: label team is required.") {
			return errors.New("no event of the scan among\n" + notes)
		}
		return nil
	})
	// The status names kinds that the controller may not read.
	eventually(t, func() error {
		notes := must(t, "", "get", "events", "-n", "default", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{"\n"}{end}`)
		if !strings.Contains(notes, "e2e-unlistable PolicyError v1 Secret cannot be scanned, and is missing in reports: ") {
			return errors.New("no event about Secrets among\n" + notes)
		}
		return nil
	})
	if page := suite.Metrics(t, r.MetricsAddr); !strings.Contains(page, `rule_execution_cause="background_scan"`) {
		t.Error("no results of scans among the metrics")
	}

	// A new process writes nothing, since all results are already reported.
	good, err := reportOf(t, ns, "good")
	if err != nil {
		t.Fatal(err)
	}
	suite.Stop(t, r)
	cluster.Start(t, devcluster.Reports)

	// Manual changes are reverted, corrected objects pass, and reports of deleted objects are deleted.
	must(t, "", "patch", "polr", uid, "-n", ns, "--type=merge", "-p", `{"summary":{"fail":0},"results":[]}`)
	eventually(t, func() error { return summaryIs(t, ns, "new", 0, 1) })
	if same, err := reportOf(t, ns, "good"); err != nil || same.ResourceVersion != good.ResourceVersion {
		t.Errorf("a report was written again by another process: %v", err)
	}
	must(t, "", "delete", "polr", uid, "-n", ns)
	eventually(t, func() error { return summaryIs(t, ns, "new", 0, 1) })
	must(t, "", "label", "configmap", "new", "-n", ns, "team=b")
	eventually(t, func() error { return summaryIs(t, ns, "new", 2, 0) })
	must(t, "", "delete", "configmap", "good", "-n", ns)
	eventually(t, func() error {
		if _, err := reportOf(t, ns, "good"); err == nil {
			return errors.New("the report outlives its resource")
		}
		return nil
	})
	must(t, "", "delete", "-f", policies)
	eventually(t, func() error {
		if out := must(t, "", "get", "polr,cpolr", "-A", "-o", "name"); strings.TrimSpace(out) != "" {
			return errors.New("reports outlive their policy:\n" + out)
		}
		return nil
	})
}

const reportsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: e2e-reports
  annotations: {policies.kyverno.io/severity: high, policies.kyverno.io/category: Sample}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports]}}]}
    validate:
      message: label team is required
      pattern: {metadata: {labels: {team: "?*"}}}
  - name: never
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports]}}]}
    preconditions: {all: [{key: a, operator: Equals, value: b}]}
    validate: {deny: {}}
  - name: space
    match: {any: [{resources: {kinds: [Namespace], names: [reports]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: e2e-unscored
  annotations: {policies.kyverno.io/scored: "false"}
spec:
  validationFailureAction: Enforce # what exists already is only reported
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports]}}]}
    validate:
      pattern: {metadata: {labels: {team: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-unlistable}
spec:
  rules:
  - name: name
    match: {any: [{resources: {kinds: [Secret], namespaces: [reports]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-not-scanned}
spec:
  background: false
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports]}}]}
    validate:
      pattern: {metadata: {labels: {team: "?*"}}}
`

func labelled(name, labels string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", labels: " + labels + "}\n"
}

// reportOf returns the report about a ConfigMap.
func reportOf(t *testing.T, ns, name string) (policyreport.PolicyReport, error) {
	t.Helper()
	var list policyreport.PolicyReportList
	if err := json.Unmarshal([]byte(must(t, "", "get", "polr", "-n", ns, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Items {
		if r.Scope != nil && r.Scope.Kind == "ConfigMap" && r.Scope.Name == name {
			return r, nil
		}
	}
	return policyreport.PolicyReport{}, fmt.Errorf("no report about %s among %d", name, len(list.Items))
}

func summaryIs(t *testing.T, ns, name string, pass, fail int) error {
	t.Helper()
	r, err := reportOf(t, ns, name)
	if err != nil {
		return err
	}
	// The results of admission for updates come in addition to those of scans, at any time.
	scans := slices.DeleteFunc(slices.Clone(r.Results), func(x policyreport.Result) bool { return x.Policy == "e2e-not-scanned" })
	if s := report.Summarize(scans); s.Pass != pass || s.Fail != fail || len(scans) != 3 {
		return fmt.Errorf("summary %+v of %d results of scans", s, len(scans))
	}
	return nil
}

// jq counts passing and failing reports of the namespace with the command of the guide.
func jq(t *testing.T, ns string, pass, fail int) error {
	t.Helper()
	if !suite.Tool(t, "jq") {
		return nil
	}
	cmd := exec.CommandContext(t.Context(), "jq", "-c", "[.items[] | {namespace: .metadata.namespace, pass: .summary.pass, fail: .summary.fail}]")
	cmd.Stdin = strings.NewReader(must(t, "", "get", "policyreport", "-A", "-o", "json"))
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var rows []struct {
		Namespace  string
		Pass, Fail int
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return err
	}
	passing, failing := 0, 0
	for _, r := range rows {
		if r.Namespace != ns {
			continue
		}
		if r.Fail > 0 {
			failing++
		} else if r.Pass > 0 {
			passing++
		}
	}
	if failing < fail || passing != pass {
		return fmt.Errorf("jq says %s", out)
	}
	return nil
}
