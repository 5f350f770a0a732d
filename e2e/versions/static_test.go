package versions

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/devcluster"
)

// The API server loads the files that `ephor convert --static` writes: they hold without Ephor, decide as the policy that is an object, and no client
// can change them or what they protect.
func TestStaticFiles(t *testing.T) {
	flags := []string{}
	switch v := server(t); {
	case v < 36:
		t.Skip("Kubernetes " + v.String() + " loads no policies from files")
	case v == 36:
		flags = append(flags, "--feature-gates=ManifestBasedAdmissionControlConfig=true")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*devcluster.Patience())
	defer cancel()
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "admission")
	examples := filepath.Join(root, "examples")
	run := exec.CommandContext(ctx, filepath.Join(root, "bin", "ephor"), "convert", "--static", dir, "--samples=30", "--prove",
		filepath.Join(examples, "static"), filepath.Join(examples, "library", "limit-replicas", "policy-cel.yaml"), filepath.Join(examples, "pod-security", "disallow-host-path.yaml"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, err := devcluster.Start(ctx, devcluster.Options{
		Progress: os.Stderr, APIServerFlags: append(flags, "--admission-control-config-file="+filepath.Join(dir, "admission.yaml")), Env: devcluster.RareCollections,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if _, err := c.Install(ctx, "standard"); err != nil { // Ephor itself does not run
		t.Fatal(err)
	}
	try := func(stdin string, args ...string) string {
		if _, err := c.Kubectl(ctx, []byte(stdin), args...); err != nil {
			return err.Error()
		}
		return ""
	}
	file := func(parts ...string) string { return filepath.Join(append([]string{examples}, parts...)...) }
	if got := try(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: few, namespace: default}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, `+
		`template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}}}`, "create", "-f", "-"); got != "" {
		t.Error(got)
	}
	for _, step := range []struct {
		want string // part of the error; empty for none
		args []string
	}{
		{"", []string{"create", "namespace", "shop"}},
		{"At most 20 replicas", []string{"create", "--dry-run=server", "-f", file("library", "limit-replicas", "bad.yaml")}},
		{"", []string{"create", "--dry-run=server", "-f", file("library", "limit-replicas", "good.yaml")}},
		{"static.k8s.io", []string{"create", "--dry-run=server", "-f", file("pod-security-tests", "disallow-host-path", "bad-pod.yaml")}},
		{"belongs to Ephor", []string{"delete", "namespace", "kyverno"}},
		{"belongs to Ephor", []string{"delete", "crd", "clusterpolicies.kyverno.io"}},
		{"", []string{"delete", "namespace", "kyverno", "--dry-run=server", "--as=someone", "--as-group=ephor-administrators", "--as-group=system:masters"}},
		{"not found", []string{"get", "validatingadmissionpolicy", "protect-ephor.static.k8s.io"}},
	} {
		got := try("", step.args...)
		if (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%v: %q, want %q", step.args, got, step.want)
		}
	}
	impact := exec.CommandContext(ctx, filepath.Join(root, "bin", "ephor"), "impact", filepath.Join(dir, "validating-policies"), "--cluster", "--kubeconfig", c.Kubeconfig)
	if out, err := impact.CombinedOutput(); err != nil || !strings.Contains(string(out), "vpol-limit-replicas.static.k8s.io") {
		t.Errorf("impact on the objects of the cluster: %v\n%s", err, out)
	}
	webhooks := `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: kyverno-resource-validating-webhook-cfg}, webhooks: []}`
	if got := try(webhooks, "create", "-f", "-"); got != "" {
		t.Error(got)
	}
	if got := try("", "delete", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg"); !strings.Contains(got, "belongs to Ephor") {
		t.Errorf("%q", got)
	}
	if got := try("", "delete", "validatingwebhookconfigurations", "--all"); !strings.Contains(got, "belongs to Ephor") {
		t.Errorf("all at once: %q", got)
	}
}
