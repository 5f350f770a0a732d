package compile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/source"
)

// refused are the public policies with mistakes.
var refused = map[string]string{
	"cost-optimization/schedule-based-quotas": "uses fields that no version of the API has",

	// Their action is Audit, and they do not set mutateDigest to false.
	"other/require-vulnerability-scan":       "changes images under the action Audit",
	"other/verify-image-cve-2022-42889":      "changes images under the action Audit",
	"other/verify-sbom-cyclonedx":            "changes images under the action Audit",
	"tekton/verify-tekton-taskrun-vuln-scan": "changes images under the action Audit",
}

// TestPublicPoliciesAreAccepted: every public policy compiles, except those with constructs that this version does not support. A check
// that is stricter than Kyverno's would reject such policies in clusters.
func TestPublicPoliciesAreAccepted(t *testing.T) {
	data := os.Getenv("EPHOR_CONFORMANCE")
	if data == "" || data == "none" {
		t.Skip("EPHOR_CONFORMANCE names no data folder: the public policies are not compiled")
	}
	root := filepath.Join(data, "policies")
	accepted := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".chainsaw-test" {
			return fs.SkipDir // the assertions of such tests are parts of policies
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		loaded, _ := source.Load([]string{path}, source.Options{})
		for _, o := range loaded {
			if apiVersion, _ := o.Value["apiVersion"].(string); !compile.Owns(apiVersion, o.Kind()) {
				continue
			}
			folder, _ := filepath.Rel(root, filepath.Dir(path))
			_, diags := compile.One(compile.Object{Value: o.Value, Pos: o.Pos})
			mistakes := 0
			for _, d := range diags.Errors() {
				if strings.Contains(d.Summary, "not supported by this version of Ephor") {
					continue
				}
				mistakes++
				if refused[folder] == "" {
					t.Error(d)
				}
			}
			switch {
			case mistakes == 0 && refused[folder] != "":
				t.Errorf("%s is accepted, though it %s", folder, refused[folder])
			case mistakes == 0:
				accepted++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d policies accepted", accepted)
	if accepted < 300 {
		t.Errorf("only %d policies were found below %s", accepted, root)
	}
}
