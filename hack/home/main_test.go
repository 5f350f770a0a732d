package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A move changes module paths, addresses and images, and no other name.
func TestMove(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{
		"home.env":           "# ephor.invalid/ephor\nEPHOR_HOME=ephor.invalid/ephor\nEPHOR_REGISTRY=ephor.invalid\nEPHOR_CONTACT=maintainers@ephor.invalid\n",
		"go.mod":             "module ephor.invalid/ephor\n",
		"tools/go.mod":       "module ephor.invalid/ephor/tools\n",
		"a.go":               "package a\n\nimport (\n\t\"ephor.invalid/ephor/b\"\n\t\"foo.example/z\"\n)\n\nconst label = \"ephor.dev/pause\"\n",
		"chart/values.yaml":  "image:\n  registry: \"\"\n  defaultRegistry: ephor.invalid\n",
		"chart/Chart.yaml":   "home: https://ephor.invalid/ephor\n",
		"rendered.yaml":      "image: ephor.invalid/ephor:0.1.0\n",
		"docs/install.md":    "helm install oci://ephor.invalid/charts/ephor; git clone https://ephor.invalid/ephor\n",
		"docs/unrelated.txt": "registry.example.com/ephor:0.1.0 and ephor.invalid\n",
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := run(root, []string{"-name", "github.com/owner/ephor", "-registry", "ghcr.io/owner", "-contact", "security@owner.example"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"home.env":           "# github.com/owner/ephor\nEPHOR_HOME=github.com/owner/ephor\nEPHOR_REGISTRY=ghcr.io/owner\nEPHOR_CONTACT=security@owner.example\n",
		"go.mod":             "module github.com/owner/ephor\n",
		"tools/go.mod":       "module github.com/owner/ephor/tools\n",
		"a.go":               "package a\n\nimport (\n\t\"foo.example/z\"\n\t\"github.com/owner/ephor/b\"\n)\n\nconst label = \"ephor.dev/pause\"\n",
		"chart/values.yaml":  "image:\n  registry: \"\"\n  defaultRegistry: ghcr.io/owner\n",
		"chart/Chart.yaml":   "home: https://github.com/owner/ephor\n",
		"rendered.yaml":      "image: ghcr.io/owner/ephor:0.1.0\n",
		"docs/install.md":    "helm install oci://ghcr.io/owner/charts/ephor; git clone https://github.com/owner/ephor\n",
		"docs/unrelated.txt": "registry.example.com/ephor:0.1.0 and ephor.invalid\n",
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, text)
		}
	}
}

// A home that is no module path, or no registry, changes nothing.
func TestCheck(t *testing.T) {
	for _, h := range []home{{"", "ghcr.io/a", "a@b.example"}, {"github.com/A B", "ghcr.io/a", "a@b.example"}, {"github.com/a/b", "GHCR.io/A", "a@b.example"}, {"github.com/a/b", "ghcr.io/a", "a b"}} {
		if err := h.check(); err == nil {
			t.Errorf("%+v is accepted", h)
		}
	}
	if err := (home{"github.com/Owner/ephor", "ghcr.io/owner", "a@b.example"}).check(); err != nil {
		t.Error(err)
	}
	if err := run(t.TempDir(), []string{"-name", "github.com/a/b", "-registry", "ghcr.io/a"}); err == nil || !strings.Contains(err.Error(), "home.env") {
		t.Errorf("a folder without home.env: %v", err)
	}
}
