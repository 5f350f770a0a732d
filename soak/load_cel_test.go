package soak

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/devcluster"
)

const celPolicies = "pod-security-cel"

// The same controls as ValidatingPolicies, and for comparison as policies of the API server itself.
func TestPodsWithPoliciesInCEL(t *testing.T) {
	loadOf(t, (*installation).podSecurityInCEL, (*installation).nativePodSecurity)
}

func (p *installation) podSecurityInCEL() {
	p.Helper()
	p.kubectl("apply", "-f", p.examples(celPolicies))
	p.kubectl("wait", "--for=jsonpath={.status.conditionStatus.ready}=true", "validatingpolicies", "--all")
	p.kubectl("create", "serviceaccount", "shop")
}

func (p *installation) examples(folder string) string {
	p.Helper()
	root, err := devcluster.Root()
	if err != nil {
		p.Fatal(err)
	}
	return filepath.Join(root, "examples", folder)
}

// nativePodSecurity creates the policies of examples/pod-security-cel as ValidatingAdmissionPolicies with bindings.
func (p *installation) nativePodSecurity() (remove func()) {
	p.Helper()
	files, err := filepath.Glob(filepath.Join(p.examples(celPolicies), "*.yaml"))
	if err != nil || len(files) == 0 {
		p.Fatalf("there are no policies: %v", err)
	}
	var items []any
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			p.Fatal(err)
		}
		var policy map[string]any
		if err := yaml.Unmarshal(text, &policy); err != nil {
			p.Fatal(err)
		}
		spec, name := policy["spec"].(map[string]any), policy["metadata"].(map[string]any)["name"]
		delete(spec, "validationActions")
		const version = "admissionregistration.k8s.io/v1"
		items = append(items, map[string]any{
			"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": name}, "spec": spec,
		}, map[string]any{
			"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"policyName": name, "validationActions": []any{"Deny"}},
		})
	}
	p.apply(encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}))
	return func() { p.kubectl("delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--all") }
}
