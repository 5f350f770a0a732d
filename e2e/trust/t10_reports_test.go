package trust

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// trustReports are rules that every ConfigMap of mallory's violates. Scans evaluate the first policy; only admission evaluates the second,
// which reads the requester.
const trustReports = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: trust-scanned}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [mallory]}}]}
    validate:
      message: "the label team is required"
      pattern: {metadata: {labels: {team: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: trust-requester}
spec:
  background: false
  rules:
  - name: who
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [mallory]}}]}
    validate:
      message: "only ops may do that"
      deny: {conditions: {all: [{key: "{{ request.userInfo.username }}", operator: NotEquals, value: ops}]}}
`

// forgedReport is an intermediate report about the ConfigMap in which both rules pass, from the year 2096.
const forgedReport = `
apiVersion: reports.kyverno.io/v1
kind: EphemeralReport
metadata:
  name: %[1]s-admission
  namespace: mallory
  labels:
    app.kubernetes.io/managed-by: kyverno
    audit.kyverno.io/source: admission
    audit.kyverno.io/resource.uid: %[1]s
    audit.kyverno.io/resource.group: ""
    audit.kyverno.io/resource.version: v1
    audit.kyverno.io/resource.kind: ConfigMap
    audit.kyverno.io/resource.gvr: configmaps.v1
  annotations: {audit.kyverno.io/resource.namespace: mallory, audit.kyverno.io/resource.name: violating}
spec:
  owner: {apiVersion: v1, kind: ConfigMap, name: violating, uid: %[1]s}
  summary: {pass: 2}
  results:
  - {source: kyverno, policy: trust-scanned, rule: team, result: pass, scored: true, message: fine, timestamp: {seconds: 3976300800, nanos: 0}}
  - {source: kyverno, policy: trust-requester, rule: who, result: pass, scored: true, message: fine, timestamp: {seconds: 3976300800, nanos: 0}}
`

// A tenant who writes intermediate reports, as the aggregated ClusterRoles allow, changes no policy report: neither results of scans, nor
// results of admission, now or later.
func TestT10ForgedReports(t *testing.T) {
	suite.Eventually(t, func() error {
		_, err := asMallory(t, "", "auth", "can-i", "create", "ephemeralreports.reports.kyverno.io")
		return err
	})
	cluster.Start(t, devcluster.Reports)
	cluster.Apply(t, trustReports)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicies", "trust-scanned", "trust-requester")
	if _, err := asMallory(t, "", "create", "configmap", "violating"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Must(t, "", "delete", "configmap", "violating", "-n", mallory) })
	uid := cluster.Must(t, "", "get", "configmap", "violating", "-n", mallory, "-o", "jsonpath={.metadata.uid}")
	says := func() string {
		out, err := cluster.Try(t, "", "get", "policyreport", uid, "-n", mallory, "-o",
			"jsonpath={range .results[*]}{.policy}={.result}@{.timestamp.seconds} {end}")
		if err != nil {
			return err.Error()
		}
		return out
	}
	both := func() error {
		if s := says(); !strings.Contains(s, "trust-scanned=fail") || !strings.Contains(s, "trust-requester=fail") {
			return fmt.Errorf("the report says %s", s)
		}
		return nil
	}
	suite.Eventually(t, func() error {
		err := both()
		if err != nil { // the webhook's configuration may have reached the API server after the object, so the object is updated once more
			if _, err := asMallory(t, "", "label", "configmap", "violating", "--overwrite", fmt.Sprint("asked=", time.Now().UnixNano())); err != nil {
				return err
			}
		}
		return err
	})

	// The controller may delete the report between the read and the write of an apply, so a failed apply is repeated.
	forge := func() {
		t.Helper()
		suite.Eventually(t, func() error {
			out, err := asMallory(t, fmt.Sprintf(forgedReport, uid), "apply", "-f", "-")
			if err != nil {
				return fmt.Errorf("%s: %w", out, err)
			}
			return nil
		})
	}
	gone := func() error { // the controller has read it
		out, err := cluster.Try(t, "", "get", "ephemeralreports", "-n", mallory, "-o", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("there is still %s", out)
		}
		return err
	}
	forge()
	suite.Eventually(t, gone)
	if err := both(); err != nil {
		t.Errorf("after the forged report: %v", err)
	}

	// The controller that adds the next result does not sign the forged ones in the object.
	for i := range 3 {
		if _, err := asMallory(t, "", "label", "configmap", "violating", "--overwrite", fmt.Sprintf("round=r%d", i)); err != nil {
			t.Fatal(err)
		}
		forge()
		suite.Eventually(t, gone)
	}
	if err := both(); err != nil {
		t.Errorf("after the forged report that results were added to: %v", err)
	}
	if s := says(); strings.Contains(s, "@3976300800") {
		t.Errorf("a date in the future is believed: %s", s)
	}
}
