package testrun

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const labelPolicy = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: need-label}
spec:
  rules:
  - name: check
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: no label
      pattern: {metadata: {labels: {app: "?*"}}}
`

// testFolder writes a Test with n expectations, each for a different Pod.
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
		"policy.yaml": labelPolicy, "pods.yaml": pods.String(),
		"kyverno-test.yaml": "apiVersion: x\nkind: Test\npolicies: [policy.yaml]\nresources: [pods.yaml]\nresults:\n" + results.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Tests run in parallel, and their results are printed in order.
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
	cmd := New(nil)
	cmd.SetOut(&out)
	cmd.SetArgs([]string{root})
	if err := cmd.Execute(); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
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
