package scan

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
)

const staticFile = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: team.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "'team' in object.metadata.?labels.orValue({})"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: team.static.k8s.io}
spec: {policyName: team.static.k8s.io, validationActions: [Deny]}
`

// The policies in the files of --staticPolicies are in force for scans, without a label; other objects there are none of them.
func TestStaticPolicies(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &NativeFlags{static: dir}
	write("admission.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n")
	if _, err := f.FromFiles(); err == nil || !strings.Contains(err.Error(), "has no policy whose name ends with") {
		t.Errorf("no policy: %v", err)
	}
	write("team.yaml", staticFile)
	found, err := f.FromFiles()
	if err != nil || len(found) != 2 {
		t.Fatalf("%d objects, %v", len(found), err)
	}
	c := catalog.New()
	policies := intake.NewPolicies(intake.PolicyOptions{
		Kinds: compile.Kinds.Where(func(k *family.Kind) bool { return k.Switch != nil }), Catalog: c, Accept: Reported, Log: slog.New(slog.DiscardHandler),
	})
	for _, u := range found {
		policies.Add(u)
	}
	programs := c.Snapshot().Programs()
	if len(programs) != 1 || programs[0].Name != "team.static.k8s.io" || programs[0].Diags.HasErrors() {
		t.Errorf("%v", programs)
	}
	write("broken.yaml", "a: [")
	if _, err := f.FromFiles(); err == nil {
		t.Error("a file that cannot be read is passed over")
	}
}
