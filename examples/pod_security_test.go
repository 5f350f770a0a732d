// Package examples_test checks that the README describes the examples correctly. Tests of internal/cli and e2e check the results of the
// policies.
package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

const (
	policyFolder   = "pod-security"
	celFolder      = "pod-security-cel"
	manifestFolder = "pod-security-tests"
)

// TestPolicies: there are 18 policies with 20 rules, two of them foreach; all are enforced, and each has its own file and is in the README.
func TestPolicies(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := policyNames(t, policyFolder)
	rules, loops := 0, 0
	for _, name := range names {
		var policy kyvernov1.ClusterPolicy
		decodeStrict(t, filepath.Join(policyFolder, name+".yaml"), &policy)
		if policy.Name != name || policy.Kind != "ClusterPolicy" || policy.APIVersion != "kyverno.io/v1" {
			t.Errorf("%s.yaml holds %s %s %s", name, policy.APIVersion, policy.Kind, policy.Name)
		}
		if !strings.Contains(string(readme), "| "+name+" |") {
			t.Errorf("README.md does not list %s", name)
		}
		for _, rule := range policy.Spec.Rules {
			rules++
			if rule.Validation == nil {
				t.Errorf("%s: rule %s does not validate", name, rule.Name)
				continue
			}
			if len(rule.Validation.ForEachValidation) > 0 {
				loops++
			}
			if action := rule.Validation.FailureAction; action == nil || !action.IsEnforce() {
				t.Errorf("%s: rule %s is not enforced", name, rule.Name)
			}
			if rule.Validation.Message == "" || strings.HasSuffix(rule.Validation.Message, "\n") {
				t.Errorf("%s: rule %s has the message %q", name, rule.Name, rule.Validation.Message)
			}
		}
	}
	if len(names) != 18 || rules != 20 || loops != 2 {
		t.Errorf("%d policies with %d rules, %d of them foreach; the benchmarks are for 18, 20 and 2", len(names), rules, loops)
	}
}

// TestManifests: each policy has two Pods and two Deployments with unique names, and nothing else.
func TestManifests(t *testing.T) {
	seen := map[string]string{}
	for _, name := range policyNames(t, policyFolder) {
		for _, verdict := range []string{"good", "bad"} {
			file := filepath.Join(manifestFolder, name, verdict+"-pod.yaml")
			var pod corev1.Pod
			decodeStrict(t, file, &pod)
			check(t, seen, file, pod.Kind+"/"+pod.Name, "Pod/"+name+"-"+verdict)

			file = filepath.Join(manifestFolder, name, verdict+"-deployment.yaml")
			var deployment appsv1.Deployment
			decodeStrict(t, file, &deployment)
			check(t, seen, file, deployment.Kind+"/"+deployment.Name, "Deployment/"+name+"-"+verdict)
		}
	}
	folders, err := os.ReadDir(manifestFolder)
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != len(policyNames(t, policyFolder)) {
		t.Errorf("%s has %d folders for %d policies", manifestFolder, len(folders), len(policyNames(t, policyFolder)))
	}
}

func check(t *testing.T, seen map[string]string, file, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s holds %s, want %s", file, got, want)
	}
	if other := seen[got]; other != "" {
		t.Errorf("%s is in %s and in %s", got, other, file)
	}
	seen[got] = file
}

// policyNames returns the names of the files in a folder of policies, without .yaml. The folder may contain no other files, since `ephor
// apply` would read them as policies.
func policyNames(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".yaml")
		if !ok || entry.IsDir() {
			t.Errorf("%s is not a policy", filepath.Join(folder, entry.Name()))
			continue
		}
		names = append(names, name)
	}
	return names
}

func decodeStrict(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}
