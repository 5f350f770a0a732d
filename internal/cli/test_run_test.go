package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testFolder writes a Test with n expectations, each about a Pod of its own.
func testFolder(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	var pods, results strings.Builder
	for i := range n {
		labels, result := "{app: x}", "pass"
		if i%3 == 0 {
			labels, result = "{}", "fail"
		}
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d, labels: %s}\n", i, labels)
		fmt.Fprintf(&results, "- {policy: need-label, rule: check, resources: [p%d], result: %s}\n", i, result)
	}
	for name, text := range map[string]string{
		"policy.yaml": needLabel, "pods.yaml": pods.String(),
		"kyverno-test.yaml": "apiVersion: x\nkind: Test\npolicies: [policy.yaml]\nresources: [pods.yaml]\nresults:\n" + results.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Tests run in parallel and are printed in their order.
func TestOrderOfTests(t *testing.T) {
	root := t.TempDir()
	const n = 40
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("t%02d", i))
		if err := os.Rename(testFolder(t, 1+(n-i)%7), dir); err != nil {
			t.Fatal(err)
		}
	}
	var out shared
	cmd := NewRoot()
	cmd.SetOut(&out)
	if code := Main([]string{"ephor", "test", root}, cmd); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out.String())
	}
	at := 0
	for i := range n {
		next := strings.Index(out.String()[at:], fmt.Sprintf("( %s", filepath.Join(root, fmt.Sprintf("t%02d", i))))
		if next < 0 {
			t.Fatalf("test %d is not printed after the one before it", i)
		}
		at += next
	}
}

func BenchmarkTest(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cases, mistakes, err := loadTests([]string{testFolder(b, n)}, "kyverno-test.yaml", nil)
			if err != nil || len(mistakes) > 0 {
				b.Fatal(err, mistakes)
			}
			b.ReportAllocs()
			for b.Loop() {
				r := &testRun{testCase: &cases[0]}
				if err := r.run(b.Context()); err != nil || len(r.rows) != n {
					b.Fatal(err, len(r.rows))
				}
			}
		})
	}
}
