package rollout

import (
	"path/filepath"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// If reports of both API groups exist for a resource, as during a change from one to the other, the resource counts once, with the report of
// openreports.io.
func TestBothKindsOfReports(t *testing.T) {
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	definitions := []string{filepath.Join(root, "config", "crds", "openreports.io_reports.yaml"), filepath.Join(root, "config", "crds", "openreports.io_clusterreports.yaml")}
	for _, file := range definitions {
		cluster.Must(t, "", "apply", "-f", file)
		t.Cleanup(func() { cluster.Must(t, "", "delete", "--wait=false", "-f", file) })
	}
	suite.Eventually(t, func() error {
		_, err := cluster.Try(t, "", "get", "reports.openreports.io,clusterreports.openreports.io", "-A")
		return err
	})
	cluster.Apply(t, bothReports)
	shell := newShell(t, root, "")
	want := step{says: []string{"both,,low,1,0,0,0,0\n", "both,both,low,1,0,1,0,0\n"}}
	if err := shell.run(want, "ephor report --policy both -o csv"); err != nil {
		t.Error(err)
	}
	want = step{says: []string{"both,both,low,1,0,1,0,0\n"}}
	if err := shell.run(want, "ephor report --policy both -n both -o csv"); err != nil {
		t.Error(err)
	}
}

const bothReports = `
apiVersion: v1
kind: Namespace
metadata: {name: both}
---
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: first, namespace: both}
scope: {apiVersion: v1, kind: ConfigMap, name: first, namespace: both}
results: [{policy: both, rule: r, result: fail, severity: low, source: kyverno}]
---
apiVersion: openreports.io/v1alpha1
kind: Report
metadata: {name: first, namespace: both}
source: kyverno
scope: {apiVersion: v1, kind: ConfigMap, name: first, namespace: both}
results: [{policy: both, rule: r, result: pass, severity: low, source: kyverno, message: corrected}]
---
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: second, namespace: both}
scope: {apiVersion: v1, kind: ConfigMap, name: second, namespace: both}
results: [{policy: both, rule: r, result: warn, severity: low, source: kyverno}]
---
apiVersion: openreports.io/v1alpha1
kind: ClusterReport
metadata: {name: third}
source: kyverno
scope: {apiVersion: v1, kind: Namespace, name: both}
results: [{policy: both, rule: r, result: pass, severity: low, source: kyverno}]
`
