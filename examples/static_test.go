package examples_test

import (
	"path/filepath"
	"slices"
	"testing"
)

// An API server can load every policy in CEL from files, with the same decisions, and the policy that protects Ephor.
func TestStatic(t *testing.T) {
	library, err := filepath.Glob("library/*/policy-cel.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "admission")
	args := slices.Concat([]string{"convert", "--static", dir, "--prove", "--samples=12", "static", "pod-security-cel"}, library)
	if out, code := run(args...); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if files, err := filepath.Glob(dir + "/validating-policies/*.yaml"); err != nil || len(files) != len(library)+19 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
