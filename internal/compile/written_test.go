package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/golden"
)

// TestWritten runs testdata/written/*.txtar: each policy.yaml is a policy that a user writes, and the following want has its diagnostics. A
// file named permitted before a policy grants the permissions that operators can grant.
func TestWritten(t *testing.T) {
	golden.Run(t, "testdata/written/*.txtar", func(t *testing.T, in golden.Inputs) string {
		permitted := family.Permissions{ServicesInNamespaces: in.Has("permitted")}
		_, diags := compile.Written(compile.Object{Value: golden.Decode[map[string]any](t, in.Text("policy.yaml"))}, permitted)
		var out strings.Builder
		for _, d := range diags {
			fmt.Fprintf(&out, "%s: %s: %s\n", d.Severity, d.Path, d.Summary)
		}
		return out.String()
	})
}
