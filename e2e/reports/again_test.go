package reports

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

func againPolicy(name, ns, label string) string {
	return strings.NewReplacer("NAME", name, "NS", ns, "LABEL", label).Replace(`---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: NAME}
spec:
  rules:
  - name: label
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS]}}]}
    validate: {pattern: {metadata: {labels: {LABEL: "?*"}}}}
`)
}

// A resource is evaluated again after it changes, by the changed policy after a policy changes, or when an annotation requests it.
func TestEvaluatedAgain(t *testing.T) {
	const ns, objects = "report-again", 6
	namespace(t, ns)
	cluster.RootCA(t, ns)
	for i := range objects - 1 { // in addition to the ConfigMap that every Namespace has
		cluster.Must(t, configMap(ns, fmt.Sprint("c", i), "a: b"), "apply", "-f", "-")
	}
	r := cluster.Start(t, devcluster.Reports)
	apply(t, againPolicy("again-one", ns, "a")+againPolicy("again-two", ns, "a"))
	times := func(one, two int) {
		t.Helper()
		suite.Until(t, fmt.Sprintf("the policies have given %d and %d results", one, two), func() error {
			if a, b := evaluated(t, r.MetricsAddr, "again-one"), evaluated(t, r.MetricsAddr, "again-two"); a != one || b != two {
				return fmt.Errorf("%d and %d", a, b)
			}
			return nil
		})
	}
	times(objects, objects)
	says(t, ns, "c0", "again-two", "label", "pass")
	version := func(name string) string { return reportOf(t, ns, "ConfigMap", name).ResourceVersion }

	apply(t, againPolicy("again-two", ns, "other"))
	says(t, ns, "c0", "again-two", "label", "fail")
	times(objects, 2*objects)

	cluster.Must(t, "", "label", "configmap", "c1", "-n", ns, "other=x")
	says(t, ns, "c1", "again-two", "label", "pass")
	times(objects+1, 2*objects+1)

	before := version("c2")
	cluster.Must(t, "", "annotate", "clusterpolicy", "again-one", "ephor.dev/rescan=now")
	times(2*objects+1, 2*objects+1)
	cluster.Must(t, "", "annotate", "namespace", ns, "ephor.dev/rescan=now")
	times(3*objects+1, 3*objects+1)
	if now := version("c2"); now != before {
		t.Errorf("a report that says the same was written again: version %s, then %s", before, now)
	}
	// A change of the status is ignored, and nothing is evaluated without a change: the next change adds one result.
	cluster.Must(t, "", "label", "configmap", "c2", "-n", ns, "other=x")
	says(t, ns, "c2", "again-two", "label", "pass")
	times(3*objects+2, 3*objects+2)
}

// A resource is evaluated again when a ConfigMap that a policy reads changes.
func TestContextChanges(t *testing.T) {
	const ns = "report-context"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "subject", "team: a"), "apply", "-f", "-")
	cluster.Must(t, "", "create", "configmap", "teams", "-n", ns, "--from-literal=known=a")
	cluster.Start(t, devcluster.Reports)
	apply(t, strings.ReplaceAll(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: context}
spec:
  rules:
  - name: known
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [NS], names: [subject]}}]}
    context: [{name: teams, configMap: {name: teams, namespace: NS}}]
    validate: {deny: {conditions: {all: [{key: "{{request.object.metadata.labels.team}}", operator: NotEquals, value: "{{teams.data.known}}"}]}}}
`, "NS", ns))
	says(t, ns, "subject", "context", "known", "pass")
	cluster.Must(t, "", "patch", "configmap", "teams", "-n", ns, "--type=merge", "-p", `{"data":{"known":"b"}}`)
	says(t, ns, "subject", "context", "known", "fail")
}

// Every interval, all resources are evaluated again.
func TestInterval(t *testing.T) {
	const ns = "report-interval"
	namespace(t, ns)
	cluster.Must(t, configMap(ns, "subject", ""), "apply", "-f", "-")
	r := cluster.Start(t, devcluster.Reports, "--backgroundScanInterval=3s")
	apply(t, againPolicy("interval", ns, "a"))
	suite.Until(t, "it was evaluated three times", func() error {
		if n := evaluated(t, r.MetricsAddr, "interval"); n < 3*2 { // with the ConfigMap that every Namespace has
			return fmt.Errorf("%d results", n)
		}
		return nil
	})
	if r := reportOf(t, ns, "ConfigMap", "subject"); r.Generation != 1 {
		t.Errorf("the report was written %d times", r.Generation)
	}
}

// The policy's status and metrics report rules and kinds that scans leave out.
func TestLeftOut(t *testing.T) {
	r := cluster.Start(t, devcluster.Reports)
	// A policy that was stored before it was reviewed. With background enabled, its rule may not read the user.
	apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: left-out}
spec:
  rules:
  - name: secret
    match: {any: [{resources: {kinds: [Secret]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
  - name: exec
    match: {any: [{resources: {kinds: [Pod/exec]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
  - name: deletion
    match: {any: [{resources: {kinds: [ConfigMap], operations: [DELETE]}}]}
    validate: {deny: {}}
`)
	want := `exec| it matches subresources, deletion| it matches operations other than CREATE, |v1/Secret secrets is forbidden`
	suite.Until(t, "the status names it", func() error {
		got := cluster.Must(t, "", "get", "clusterpolicy", "left-out", "-o", `jsonpath={range .status.backgroundScan.notScanned[*]}{.rule}|{.kind} {.reason}, {end}`)
		for _, part := range strings.Split(want, ", ") {
			if !strings.Contains(got, part) {
				return fmt.Errorf("it says %q", got)
			}
		}
		return nil
	})
	if ready := cluster.Must(t, "", "get", "clusterpolicy", "left-out", "-o", "jsonpath={.status.conditions[*].type}{.status.rulecount.validate}"); ready != "Ready3" {
		t.Errorf("the rest of the status is %q", ready)
	}
	if page := suite.Metrics(t, r.MetricsAddr); !strings.Contains(page, `ephor_reports_unlistable_kinds{kind="Secret"`) {
		t.Error("no metric tells of the kind")
	}
	cluster.Must(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: left-out}
spec:
  rules:
  - name: config
    match: {any: [{resources: {kinds: [ConfigMap], names: [none]}}]}
    validate: {pattern: {metadata: {name: "?*"}}}
`, "apply", "-f", "-")
	suite.Until(t, "the status says nothing any longer", func() error {
		if got := cluster.Must(t, "", "get", "clusterpolicy", "left-out", "-o", "jsonpath={.status.backgroundScan}"); got != "" {
			return fmt.Errorf("it says %s", got)
		}
		return nil
	})
}
