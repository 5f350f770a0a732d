package reports

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	openreports "ephor.invalid/ephor/api/openreports/v1alpha1"
	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// formsPolicy has rules with every result except error.
const formsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: forms
  annotations: {policies.kyverno.io/severity: medium, policies.kyverno.io/category: Sample}
spec:
  rules:
  - name: passes
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
  - name: fails
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    reportProperties: {owner: "{{request.object.metadata.name}}"}
    validate: {message: a team is needed, pattern: {metadata: {labels: {team: "?*"}}}}
  - name: skips
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    preconditions: {all: [{key: a, operator: Equals, value: b}]}
    validate: {deny: {}}
  - name: errs
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    validate: {deny: {conditions: {all: [{key: "{{request.object.data.none}}", operator: Equals, value: b}]}}}
  - name: space
    match: {any: [{resources: {kinds: [Namespace], names: [NS]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: forms-unscored, annotations: {policies.kyverno.io/scored: "false"}}
spec:
  rules:
  - name: warns
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    validate: {pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: forms-disabled, labels: {reports.kyverno.io/disabled: ""}}
spec:
  rules:
  - name: nobody-knows
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    validate: {pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: forms-exec}
spec:
  rules:
  - name: exec
    match: {any: [{resources: {kinds: [Pod/exec]}}]}
    validate: {pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: forms-event}
spec:
  rules:
  - name: event
    match: {any: [{resources: {kinds: [Event], namespaces: [NS]}}]}
    validate: {pattern: {metadata: {labels: {team: "?*"}}}}
`

// PolicyReports and ClusterPolicyReports have every documented field, label and printer column, and work with the commands of the guide.
func TestPolicyReports(t *testing.T) {
	const ns = "report-forms"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "subject", ""), "apply", "-f", "-")
	cluster.Start(t, devcluster.Reports)
	apply(t, strings.ReplaceAll(formsPolicy, "NS", ns))
	want := policyreport.Summary{Pass: 1, Fail: 1, Warn: 1, Error: 1, Skip: 1}
	var r *policyreport.PolicyReport
	suite.Until(t, "the report is whole", func() error {
		if r = reportOf(t, ns, "ConfigMap", "subject"); r == nil || r.Summary != want {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	uid := cluster.Must(t, "", "get", "configmap", "subject", "-n", ns, "-o", "jsonpath={.metadata.uid}")
	owner := r.OwnerReferences[0]
	if r.Name != uid || string(owner.UID) != uid || owner.APIVersion != "v1" || owner.Kind != "ConfigMap" || owner.Name != "subject" || len(r.OwnerReferences) != 1 {
		t.Errorf("name and owner: %s %+v", r.Name, r.OwnerReferences)
	}
	if len(r.Labels) != 1 || r.Labels["app.kubernetes.io/managed-by"] != "kyverno" {
		t.Errorf("labels %v", r.Labels)
	}
	if s := r.Scope; s.APIVersion != "v1" || s.Namespace != ns || string(s.UID) != uid {
		t.Errorf("scope %+v", s)
	}
	var order []string
	for _, one := range r.Results {
		order = append(order, one.Rule+" "+string(one.Result))
		if one.Source != "kyverno" || one.Timestamp.Seconds == 0 || one.Timestamp.Nanos != 0 || len(one.Resources) != 0 || one.Properties["process"] != "background scan" {
			t.Errorf("%+v", one)
		}
		if scored := one.Policy == "forms"; one.Scored != scored || scored && (one.Category != "Sample" || one.Severity != "medium") {
			t.Errorf("%+v", one)
		}
	}
	if got := strings.Join(order, ", "); got != "errs error, fails fail, passes pass, skips skip, warns warn" {
		t.Error(got)
	}
	if fails := r.Results[1]; fails.Message != "validation error: a team is needed. rule fails failed at path /metadata/labels/" || fails.Properties["owner"] != "subject" {
		t.Errorf("%+v", fails)
	}

	// The commands of the guide.
	columns(t, []string{"NAMESPACE", "NAME", "KIND", "NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"},
		[]string{ns, uid, "ConfigMap", "subject", "1", "1", "1", "1", "1"}, "get", "polr", "-A", "-o", "wide")
	suite.Until(t, "the report about the Namespace is there", func() error {
		if reportOf(t, "", "Namespace", ns) == nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	columns(t, []string{"NAME", "KIND", "NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"},
		[]string{"Namespace", ns, "1", "0", "0", "0", "0"}, "get", "clusterpolicyreport", "-o", "wide")
	if got := cluster.Must(t, "", "get", "polr", uid, "-n", ns, "-o", `jsonpath={.results[?(@.result=="fail")].rule}`); got != "fails" {
		t.Errorf("jsonpath: %q", got)
	}
	if got := jq(t, `[.items[] | {namespace: .metadata.namespace, pass: .summary.pass, fail: .summary.fail}]`, "get", "policyreport", "-A", "-o", "json"); !strings.Contains(got, `{"namespace":"`+ns+`","pass":1,"fail":1}`) {
		t.Errorf("jq: %s", got)
	}
	for _, kind := range []string{"Event", "Pod"} {
		if got := cluster.Must(t, "", "get", "polr", "-A", "-o", `jsonpath={.items[?(@.scope.kind=="`+kind+`")].metadata.name}`); got != "" {
			t.Errorf("there is a report about a %s", kind)
		}
	}
}

// Only results that --allowedResults names are reported.
func TestAllowedResults(t *testing.T) {
	const ns = "report-allowed"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "subject", ""), "apply", "-f", "-")
	cluster.Start(t, devcluster.Reports, "--allowedResults=fail,warn")
	apply(t, strings.ReplaceAll(formsPolicy, "NS", ns))
	suite.Until(t, "the report holds failures and warnings alone", func() error {
		if r := reportOf(t, ns, "ConfigMap", "subject"); r == nil || r.Summary != (policyreport.Summary{Fail: 1, Warn: 1}) || len(r.Results) != 2 {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	if r := reportOf(t, "", "Namespace", ns); r != nil {
		t.Errorf("a report about what passes: %+v", r.Summary)
	}
}

// With --openreportsEnabled the controller writes reports of openreports.io.
func TestOpenReports(t *testing.T) {
	const ns = "report-open"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "subject", ""), "apply", "-f", "-")
	cluster.Start(t, devcluster.Reports, "--openreportsEnabled")
	apply(t, strings.ReplaceAll(formsPolicy, "NS", ns))
	uid := cluster.Must(t, "", "get", "configmap", "subject", "-n", ns, "-o", "jsonpath={.metadata.uid}")
	whole := func() error {
		text, err := cluster.Try(t, "", "get", "reports.openreports.io", uid, "-n", ns, "-o", "json")
		if err != nil {
			return err
		}
		var r openreports.Report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return err
		}
		if r.Summary != (openreports.Summary{Pass: 1, Fail: 1, Warn: 1, Error: 1, Skip: 1}) || len(r.Results) != 5 || r.Labels["app.kubernetes.io/managed-by"] != "kyverno" ||
			r.Scope.Name != "subject" || len(r.OwnerReferences) != 1 || r.Results[1].Description != "validation error: a team is needed. rule fails failed at path /metadata/labels/" {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	}
	suite.Until(t, "the report is whole", whole)
	columns(t, []string{"NAMESPACE", "NAME", "KIND", "NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"},
		[]string{ns, uid, "ConfigMap", "subject", "1", "1", "1", "1", "1"}, "get", "reps", "-A", "-o", "wide")
	suite.Until(t, "there is one about the Namespace", func() error {
		if got := cluster.Must(t, "", "get", "creps", "-o", "wide"); !strings.Contains(got, ns) {
			return fmt.Errorf("there are\n%s", got)
		}
		return nil
	})
	cluster.Must(t, "", "patch", "reports.openreports.io", uid, "-n", ns, "--type=merge", "-p", `{"summary":{"fail":0},"results":[]}`)
	suite.Until(t, "what was edited is put right", whole)
	if r := reportOf(t, ns, "ConfigMap", "subject"); r != nil {
		t.Error("there is a PolicyReport, too")
	}
}

// columns asserts the header of kubectl's output, and that a row contains the cells next to each other.
func columns(t *testing.T, header, row []string, args ...string) {
	t.Helper()
	out := cluster.Must(t, "", args...)
	lines := strings.Split(out, "\n")
	if got := strings.Fields(lines[0]); strings.Join(got, " ") != strings.Join(header, " ") {
		t.Errorf("%v prints the columns %v, want %v", args, got, header)
	}
	for _, line := range lines[1:] {
		if strings.Contains(strings.Join(strings.Fields(line), " "), strings.Join(row, " ")) {
			return
		}
	}
	t.Errorf("%v prints no row %v:\n%s", args, row, out)
}

// jq runs a program of jq on the output of kubectl.
func jq(t *testing.T, program string, args ...string) string {
	t.Helper()
	if !suite.Tool(t, "jq") {
		t.SkipNow()
	}
	cmd := exec.CommandContext(t.Context(), "jq", "-c", program)
	cmd.Stdin = strings.NewReader(cluster.Must(t, "", args...))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
