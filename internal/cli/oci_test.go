package cli

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"ephor.invalid/ephor/internal/policyartifact"
)

// runCLI runs a command.
func runCLI(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, mistakes bytes.Buffer
	root := NewRoot()
	root.SetOut(&out)
	root.SetErr(&mistakes)
	code = Main(append([]string{"ephor"}, args...), root)
	return code, out.String(), mistakes.String()
}

const labelsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: labels}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: "a team is needed", pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: data}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
  validations: [{expression: "has(object.data)", message: "data is needed"}]
`

const ociTest = `
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: stored}
policies: ["oci://REGISTRY/team/policies:1"]
resources: [map.yaml]
results:
- {policy: labels, rule: team, resources: [m], kind: ConfigMap, result: fail}
`

// Policies are pushed, pulled, applied, linted and tested by their reference in a registry.
func TestOCI(t *testing.T) {
	registry := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	defer registry.Close()
	host := strings.TrimPrefix(registry.URL, "http://")
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policies := write("policies.yaml", labelsPolicy)
	configMap := write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")
	write("kyverno-test.yaml", strings.ReplaceAll(ociTest, "REGISTRY", host))
	broken := write("broken.yaml", strings.ReplaceAll(labelsPolicy, "ClusterPolicy", "Policy")+"\n---\napiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: x}\nspec: {rules: [{name: a, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: m}}]}\n")
	reference := host + "/team/policies:1"

	code, _, stderr := runCLI(t, "oci", "push", policies, "-i", reference)
	if want := "Adding cluster policy [labels]\nAdding validating policy [data]\nUploading [" + reference + "]...\nDone.\n"; code != 0 || stderr != want {
		t.Fatalf("%d %s", code, stderr)
	}
	if code, _, stderr := runCLI(t, "oci", "push", broken, "-i", host+"/team/broken:1"); code != 1 || strings.Contains(stderr, "Uploading") {
		t.Errorf("a policy with a mistake: %d %s", code, stderr)
	}
	into := filepath.Join(dir, "pulled")
	if code, _, stderr := runCLI(t, "oci", "pull", into, "-i", reference); code != 0 || !strings.HasSuffix(stderr, "Done.\n") {
		t.Fatalf("%d %s", code, stderr)
	}
	for _, name := range []string{"labels.yaml", "data.yaml"} {
		info, err := os.Stat(filepath.Join(into, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, from := range []string{into, "oci://" + reference} {
		code, stdout, stderr := runCLI(t, "apply", from, "--resource", configMap)
		if code != 1 || !strings.Contains(stdout, "pass: 0, fail: 2, warn: 0, error: 0, skip: 0") {
			t.Errorf("apply %s: %d\n%s%s", from, code, stdout, stderr)
		}
		if code, stdout, stderr := runCLI(t, "lint", from); code != 0 {
			t.Errorf("lint %s: %d\n%s%s", from, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := runCLI(t, "test", dir); code != 0 || !strings.Contains(stdout, "1 tests passed") {
		t.Errorf("test: %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := runCLI(t, "apply", "oci://"+host+"/none:1", "--resource", configMap); code == 0 || !strings.Contains(stderr, "oci://"+host+"/none:1") {
		t.Errorf("an artifact that is not there: %d %s", code, stderr)
	}
}

// Policies of one name are all pulled.
func TestOCISameNames(t *testing.T) {
	registry := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	defer registry.Close()
	reference := strings.TrimPrefix(registry.URL, "http://") + "/p:1"
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(labelsPolicy, "{name: data}", "{name: labels}")), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCLI(t, "oci", "push", file, "-i", reference); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	into := filepath.Join(t.TempDir(), "in")
	if code, _, stderr := runCLI(t, "oci", "pull", into, "-i", reference); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	for name, kind := range map[string]string{"labels.yaml": "kind: ClusterPolicy", "labels-2.yaml": "kind: ValidatingPolicy"} {
		if content, err := os.ReadFile(filepath.Join(into, name)); err != nil || !strings.Contains(string(content), kind) {
			t.Errorf("%s: %v\n%s", name, err, content)
		}
	}
}

// A name that leads out of the directory is rejected, and nothing is written.
func TestOCINames(t *testing.T) {
	registry := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	defer registry.Close()
	for _, bad := range []string{"../outside", "/etc/x", "", "a/b"} {
		reference := strings.TrimPrefix(registry.URL, "http://") + "/p:1"
		client, err := policyartifact.Machine()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policyartifact.Push(t.Context(), client, reference, []policyartifact.File{{Kind: "ClusterPolicy", Name: "good", Content: []byte("a: b")}, {Kind: "ClusterPolicy", Name: bad, Content: []byte("a: b")}}); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "in")
		if code, _, stderr := runCLI(t, "oci", "pull", into, "-i", reference); code != 1 || !strings.Contains(stderr, "names its policy") {
			t.Errorf("%q: %d %s", bad, code, stderr)
		}
		if _, err := os.Stat(into); err == nil {
			t.Errorf("%q: something was written", bad)
		}
	}
}

// An artifact in Kyverno's format (an OCI manifest, an image configuration with Kyverno's media type, and annotations on each layer) is
// linted, pulled and applied.
func TestOCIOfKyverno(t *testing.T) {
	registry := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	defer registry.Close()
	reference := strings.TrimPrefix(registry.URL, "http://") + "/policies:latest"
	first, _, _ := strings.Cut(labelsPolicy, "---")
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.kyverno.config.v1+json"), mutate.Addendum{
		Layer:       static.NewLayer([]byte(first), "application/vnd.cncf.kyverno.policy.layer.v1+yaml"),
		Annotations: map[string]string{"io.kyverno.image.kind": "ClusterPolicy", "io.kyverno.image.name": "labels", "io.kyverno.image.apiVersion": "kyverno.io/v1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runCLI(t, "lint", "oci://"+reference); code != 0 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	into := filepath.Join(t.TempDir(), "pulled")
	if code, stdout, stderr := runCLI(t, "oci", "pull", into, "-i", reference); code != 0 {
		t.Errorf("pull: %d %s%s", code, stdout, stderr)
	}
	file := filepath.Join(into, "labels.yaml")
	if content, err := os.ReadFile(file); err != nil || string(content) != first {
		t.Errorf("%v: what was pulled is\n%s", err, content)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	resource := filepath.Join(t.TempDir(), "map.yaml")
	if err := os.WriteFile(resource, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runCLI(t, "apply", "oci://"+reference, "--resource", resource); code != 1 || !strings.Contains(stdout, "pass: 0, fail: 1, warn: 0, error: 0, skip: 0") {
		t.Errorf("apply: %d %s%s", code, stdout, stderr)
	}
}
