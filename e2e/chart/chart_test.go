package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/internal/devcluster"
)

// TestRelease installs, upgrades and uninstalls a release, definitions included. Helm stores the release in one Secret, which must stay
// within the API server's limits.
func TestRelease(t *testing.T) {
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(root, "hack", "helm.sh")).CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v\n%s", err, out)
	}
	cluster := devcluster.StartT(t)
	dir := filepath.Join(root, "charts")
	run := func(args ...string) {
		t.Helper()
		if _, err := helm.Run(append(args, "--kubeconfig="+cluster.Kubeconfig, "--namespace=kyverno")...); err != nil {
			t.Fatal(err)
		}
	}
	get := func(args ...string) string {
		t.Helper()
		out, err := cluster.Kubectl(t.Context(), nil, append([]string{"get"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	ours := func(kinds string) string {
		t.Helper()
		return get(kinds, "-A", "-l", "app.kubernetes.io/instance=kyverno", "-o", "name")
	}

	// The packed charts, as users without a checkout get them.
	packed := t.TempDir()
	if out, err := helm.Run("package", filepath.Join(dir, "ephor"), "--destination", packed); err != nil {
		t.Fatal(err, out)
	}
	archives, err := filepath.Glob(filepath.Join(packed, "ephor-*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatal(archives, err)
	}
	run("install", "kyverno", archives[0], "--create-namespace")
	if got := ours("deployments"); got != deployments("admission", "background", "cleanup", "reports") {
		t.Errorf("deployments:\n%s", got)
	}
	if got := get("clusterrole", "kyverno:webhook", "-o", "name"); !strings.HasSuffix(got, "kyverno:webhook") {
		t.Error(got)
	}
	if err := cluster.Wait(t.Context(), "kubectl explain to know the definitions", func() error {
		got, err := cluster.Kubectl(t.Context(), nil, "explain", "clusterpolicy.spec.rules.validate.pattern")
		if err == nil && (!strings.Contains(got, "DESCRIPTION:") || strings.Contains(got, "<empty>")) {
			err = fmt.Errorf("kubectl explain:\n%s", got)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	const limit = 1 << 20 // the maximum size of a Secret
	release := get("secret", "sh.helm.release.v1.kyverno.v1", "-n", "kyverno", "-o", "jsonpath={.data.release}")
	if size := len(release) * 3 / 4; size > limit*6/10 {
		t.Errorf("the release's Secret holds %d bytes of %d: there has to be room for more kinds and for users' values", size, limit)
	} else {
		t.Logf("the release's Secret holds %d bytes", size)
	}

	// Nearly every switch is enabled, except those for kinds that the API server does not have.
	args := []string{"upgrade", "kyverno", filepath.Join(dir, "ephor")}
	for _, name := range []string{"high-availability", "network", "load", "scheduling", "authorities", "image", "config", "features"} {
		args = append(args, "-f", filepath.Join(dir, "testdata", name+".yaml"))
	}
	run(args...)
	if got := ours("poddisruptionbudgets,networkpolicies,horizontalpodautoscalers,flowschemas,prioritylevelconfigurations"); strings.Count(got, "\n") != 6 {
		t.Errorf("after the upgrade:\n%s", got)
	}
	if got := get("deployment", "kyverno-cleanup-controller", "-n", "kyverno", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("%s replicas", got)
	}

	adopted(t, dir, run, get)

	// The same in a single process.
	run("upgrade", "kyverno", archives[0], "-f", filepath.Join(dir, "testdata", "single-process.yaml"), "--set", "config.preserve=false")
	if got := ours("deployments"); got != deployments("admission") {
		t.Errorf("with singleProcess.enabled:\n%s", got)
	}
	for _, name := range []string{"background", "cleanup", "reports"} {
		if got := get("clusterrolebinding", "kyverno:"+name+"-controller", "-o", "jsonpath={.subjects[*].name}"); got != "kyverno-admission-controller" {
			t.Errorf("the %s controller's rights are those of %s", name, got)
		}
	}

	run("uninstall", "kyverno", "--wait")
	kinds, err := cluster.Kubectl(t.Context(), nil, "api-resources", "--verbs=list,delete", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	// The garbage collector deletes Pods, ReplicaSets and other dependents.
	if err := cluster.Wait(t.Context(), "the release to be gone", func() error {
		left, err := cluster.Kubectl(t.Context(), nil, "get", strings.Join(strings.Fields(kinds), ","), "-A", "-l", "app.kubernetes.io/part-of=kyverno", "-o", "name", "--ignore-not-found")
		if err == nil && strings.TrimSpace(left) != "" {
			// The conditions of a definition contain the reason why it still exists.
			why, _ := cluster.Kubectl(t.Context(), nil, "get", "customresourcedefinitions", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp} {.status.conditions}{'\\n'}{end}")
			err = fmt.Errorf("still there:\n%s\n%s", left, why)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// deployments returns the names of the controllers' Deployments, in kubectl's format.
func deployments(controllers ...string) string {
	for i, name := range controllers {
		controllers[i] = "deployment.apps/kyverno-" + name + "-controller"
	}
	return strings.Join(controllers, "\n")
}

// A release of Kyverno's chart of policies becomes one of ephor-policies: the same objects, of the kind that they have. A chart that renders
// two of the policies otherwise represents Kyverno's.
func adopted(t *testing.T, dir string, run func(...string), get func(...string) string) {
	t.Helper()
	theirs := filepath.Join(t.TempDir(), "kyverno-policies")
	if err := os.MkdirAll(filepath.Join(theirs, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	const policies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: disallow-host-path
  labels: {helm.sh/chart: kyverno-policies-3.8.2, app.kubernetes.io/instance: {{ .Release.Name }}}
spec: {validationFailureAction: Enforce, rules: [{name: host-path, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {failureAction: Enforce, message: theirs, pattern: {spec: {=(volumes): [{X(hostPath): "null"}]}}}}]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: restrict-sysctls}
spec: {rules: [{name: check-sysctls, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: theirs, pattern: {metadata: {name: "?*"}}}}]}
`
	for name, text := range map[string]string{"Chart.yaml": "apiVersion: v2\nname: kyverno-policies\nversion: 3.8.2\n", "templates/policies.yaml": policies} {
		if err := os.WriteFile(filepath.Join(theirs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("install", "kyverno-policies", theirs)
	before := get("clusterpolicy", "disallow-host-path", "restrict-sysctls", "-o", "jsonpath={.items[*].metadata.uid}")
	run("upgrade", "kyverno-policies", filepath.Join(dir, "ephor-policies"), "--set", "validationFailureAction=Enforce")
	if after := get("clusterpolicy", "disallow-host-path", "restrict-sysctls", "-o", "jsonpath={.items[*].metadata.uid}"); after != before {
		t.Errorf("the policies were %s and are %s", before, after)
	}
	chart := get("clusterpolicies", "-l", "app.kubernetes.io/instance=kyverno-policies", "-o", "jsonpath={.items[*].metadata.labels.helm\\.sh/chart}")
	if n := strings.Count(chart, "ephor-policies-"); n != 11 || get("validatingpolicies", "-o", "name") != "" {
		t.Errorf("%d policies of the chart: %s", n, chart)
	}
	run("upgrade", "kyverno-policies", theirs) // the way back
	if back := get("clusterpolicies", "-o", "jsonpath={.items[*].metadata.uid}"); back != before {
		t.Errorf("the policies were %s and are %s", before, back)
	}
	run("upgrade", "kyverno-policies", filepath.Join(dir, "ephor-policies"), "--set", "policyType=ValidatingPolicy,podSecurityStandard=restricted")
	if got := get("validatingpolicies", "-o", "name"); strings.Count(got, "validatingpolicy") != 17 || get("clusterpolicies", "-o", "name") != "" {
		t.Errorf("the other type:\n%s", got)
	}
	run("uninstall", "kyverno-policies")
}
