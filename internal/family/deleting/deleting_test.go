package deleting_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// TestData runs testdata/*.txtar: policies.yaml and resources.yaml are lists (see familytest.Request). want holds the diagnostics, the
// results of the policies for each resource in order, and the work that they request.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var b strings.Builder
		programs := familytest.Compile(&b, golden.Objects(t, in.Text("policies.yaml")))
		for _, o := range golden.Objects(t, in.Text("resources.yaml")) {
			r := familytest.Request(o)
			out := engine.Eval(t.Context(), engine.Input{Selections: familytest.Select(programs...), Request: r, Stages: policy.StageDelete, Plan: true})
			fmt.Fprintf(&b, "%s %s %s/%s\n", r.Operation, r.GVK.Kind, r.Namespace, r.Name)
			familytest.Lines(&b, &out)
			familytest.Work(&b, &out)
		}
		return b.String()
	})
}
