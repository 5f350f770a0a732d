package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
)

const needLabel = `apiVersion: kyverno.io/v1
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

// pods returns n Pods, every third without the label, as one stream or as one List.
func pods(t testing.TB, n int, list bool) string {
	var b strings.Builder
	if list {
		b.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	}
	for i := range n {
		labels := "{app: x}"
		if i%3 == 0 {
			labels = "{}"
		}
		if list {
			fmt.Fprintf(&b, "- {apiVersion: v1, kind: Pod, metadata: {name: p%d, labels: %s}}\n", i, labels)
		} else {
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p%d\n  labels: %s\n# %s\n", i, labels, strings.Repeat("x", 200))
		}
	}
	return tempFile(t, "pods.yaml", b.String())
}

func tempFile(t testing.TB, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The results are in the order of the input, however the work is distributed to processors.
func TestOrder(t *testing.T) {
	set := load.Policies(nil, []string{tempFile(t, "p.yaml", needLabel)}, nil)
	if len(set.Programs) != 1 || len(set.Diags) > 0 {
		t.Fatalf("the policy: %v", set.Diags)
	}
	const n = 3000
	for _, list := range []bool{false, true} {
		inputs, _ := source.Find([]string{pods(t, n, list)}, source.Options{})
		got := evaluateAll(context.Background(), evaluation{programs: set.Programs, inputs: inputs})
		if got.resources != n || got.summary.Fail != n/3 || got.summary.Pass != n-n/3 || len(got.diags) > 0 {
			t.Fatalf("list %v: %d resources, %+v, %v", list, got.resources, got.summary, got.diags)
		}
		for i, e := range got.entries {
			if want := fmt.Sprintf("p%d", 3*i); e.Resource.Name != want || e.Status != policy.StatusFail {
				t.Fatalf("list %v: entry %d is %s of %s, want the failure of %s", list, i, e.Status, e.Resource.Name, want)
			}
		}
	}
}

func BenchmarkApply(b *testing.B) {
	set := load.Policies(nil, []string{tempFile(b, "p.yaml", needLabel)}, nil)
	inputs, _ := source.Find([]string{pods(b, 1000, false)}, source.Options{})
	b.ReportAllocs()
	for b.Loop() {
		evaluateAll(context.Background(), evaluation{programs: set.Programs, inputs: inputs})
	}
}
