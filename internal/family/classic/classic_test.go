package classic_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// TestMistakes runs testdata/check/*.txtar: for each policy, the diagnostics of Decode, Check and Compile in the order
// in which an author sees them.
func TestMistakes(t *testing.T) {
	each(t, "testdata/check/*.txtar", func(t *testing.T, object map[string]any) string {
		p, diags := classic.Decode(object)
		diags.Add(classic.Check(p)...)
		diags.Add(classic.Compile(p).Diags...)
		return lines(diags)
	})
}

// TestPrograms runs testdata/compile/*.txtar: settings, rules and their needs.
func TestPrograms(t *testing.T) {
	each(t, "testdata/compile/*.txtar", func(t *testing.T, object map[string]any) string {
		p, diags := classic.Decode(object)
		program := classic.Compile(p)
		return lines(append(diags, program.Diags...)) + describe(program)
	})
}

// each runs the policies in txtar files: every section policy*.yaml, then want.
func each(t *testing.T, pattern string, run func(*testing.T, map[string]any) string) {
	golden.Run(t, pattern, func(t *testing.T, in golden.Inputs) string {
		got := ""
		for _, f := range in {
			if len(in) > 1 {
				got += "# " + f.Name + "\n"
			}
			got += run(t, golden.Decode[map[string]any](t, f.Data))
		}
		return got
	})
}

func lines(diags diag.List) string {
	out := ""
	for _, d := range diags {
		out += d.String() + "\n"
	}
	return out
}

func describe(p *policy.Program) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n%+v\n", p.APIVersion, p.Kind, p.Key(), p.Settings)
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "%d %s %s at %s", r.Index, r.Name, r.Kind, r.Path)
		if r.Origin.IsAutogen() {
			fmt.Fprintf(&b, ", %s of %s", r.Origin.Controllers, r.Origin.Parent)
		}
		fmt.Fprintf(&b, "\n  %s", r.Action.Default)
		for _, o := range r.Action.Overrides {
			fmt.Fprintf(&b, ", %s in %v (selector %t)", o.Action, o.Namespaces, o.Selector != nil)
		}
		fmt.Fprintf(&b, "; existing %t, delete %t\n  %+v\n  reads %v\n", r.AllowExisting, !r.SkipOnDelete, r.Needs, r.Object)
		if r.Generation != nil {
			fmt.Fprintf(&b, "  %+v\n", *r.Generation)
		}
		for _, o := range r.Outputs {
			fmt.Fprintf(&b, "  makes %+v\n", o)
		}
	}
	return b.String()
}

func TestOwns(t *testing.T) {
	for in, want := range map[[2]string]bool{
		{"kyverno.io/v1", "ClusterPolicy"}:         true,
		{"kyverno.io/v2beta1", "Policy"}:           true,
		{"kyverno.io/v9", "Policy"}:                true, // Decode reports that there is no such version
		{"kyverno.io/v2", "CleanupPolicy"}:         false,
		{"policies.kyverno.io/v1", "Policy"}:       false,
		{"v1", "Policy"}:                           false,
		{"example.com/v1", "ClusterPolicy"}:        false,
		{"kyverno.io.example/v1", "ClusterPolicy"}: false,
	} {
		if got := classic.Owns(in[0], in[1]); got != want {
			t.Errorf("%v: %t", in, got)
		}
	}
}
