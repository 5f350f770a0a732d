package mutating_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// TestData runs testdata/*.txtar: policies.yaml and resources.yaml are lists. want holds the diagnostics and, for each resource, the results
// of the policies in order, the changed resource, and the results of a scan.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var b strings.Builder
		policies := golden.Objects(t, in.Text("policies.yaml"))
		programs := familytest.Compile(&b, policies)
		var scanned []*policy.Program
		for _, p := range policies {
			if program, diags := compile.With(compile.Object{Value: p}, nil, family.Options{Existing: true}); !diags.HasErrors() {
				scanned = append(scanned, program)
			}
		}
		for _, o := range golden.Objects(t, in.Text("resources.yaml")) {
			r := familytest.Request(o)
			out := engine.Eval(t.Context(), engine.Input{Selections: familytest.Select(programs...), Request: r, Stages: policy.StageMutate})
			fmt.Fprintf(&b, "%s %s/%s\n", r.GVK.Kind, r.Namespace, r.Name)
			familytest.Lines(&b, &out)
			if out.Object != r.Object {
				made, err := out.Object.Map()
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "  = %s\n", value.JSON(made))
			}
			found := engine.Eval(t.Context(), engine.Input{Selections: familytest.Select(scanned...), Request: r, Stages: policy.StageValidate})
			for _, r := range found.Results {
				fmt.Fprintf(&b, "  scan: %s %s: %s\n", r.Program.Key(), r.Status, r.Message)
			}
		}
		return b.String()
	})
}
