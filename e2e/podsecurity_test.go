package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each policy of examples/pod-security alone, with Enforce, denies its bad Pod and its bad Deployment (autogen) with Kyverno's message, and
// admits the good ones.
func TestPodSecurityPoliciesRefuse(t *testing.T) {
	policies, err := filepath.Glob(filepath.Join(root, "examples", "pod-security", "*.yaml"))
	if err != nil || len(policies) != 18 {
		t.Fatalf("%d policies in examples/pod-security: %v", len(policies), err)
	}
	for _, file := range policies {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			applyPolicies(t, file)
			manifest := func(which string) string {
				b, err := os.ReadFile(filepath.Join(root, "examples", "pod-security-tests", name, which+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			for _, bad := range []struct{ file, kind, rulePrefix string }{{"bad-pod", "Pod", ""}, {"bad-deployment", "Deployment", "autogen-"}} {
				_, err := kubectl(t, manifest(bad.file), "create", "--dry-run=server", "-f", "-")
				text, ok := refused(err)
				if !ok {
					t.Errorf("%s was not refused: %v", bad.file, err)
					continue
				}
				layout := regexp.MustCompile(`admission webhook "validate\.kyverno\.svc-fail" denied the request: \n\nresource ` + bad.kind +
					`/default/[a-z0-9-]+ was blocked due to the following policies \n\n` + name + `:\n  ` + bad.rulePrefix + `[a-z0-9-]+: \S`)
				if !layout.MatchString(text) {
					t.Errorf("%s: the message is not in Kyverno's layout:\n%s", bad.file, text)
				}
			}
			for _, good := range []string{"good-pod", "good-deployment"} {
				if _, err := kubectl(t, manifest(good), "create", "--dry-run=server", "-f", "-"); err != nil {
					t.Errorf("%s was refused: %v", good, err)
				}
			}
		})
	}
}

// With all 18 policies, the message names every policy that the Pod violates, and the good Pod is stored.
func TestPodSecurityAllAtOnce(t *testing.T) {
	applyPolicies(t, filepath.Join(root, "examples", "pod-security"))
	_, err := kubectl(t, `
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: default}
spec:
  hostNetwork: true
  containers:
  - name: c
    image: registry.example.com/c:1
    securityContext: {privileged: true}
`, "create", "-f", "-")
	text, ok := refused(err)
	if !ok {
		t.Fatalf("not refused: %v", err)
	}
	for _, policy := range []string{"disallow-host-namespaces:", "disallow-privileged-containers:", "disallow-privilege-escalation:", "require-run-as-nonroot:"} {
		if !strings.Contains(text, "\n"+policy+"\n") {
			t.Errorf("the message does not name %s:\n%s", policy, text)
		}
	}
	good := filepath.Join(root, "examples", "pod-security-tests", "disallow-privileged-containers", "good-pod.yaml")
	must(t, "", "create", "-f", good)
	must(t, "", "delete", "--force", "--grace-period=0", "-f", good)
}
