package engine

import (
	"context"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// TestT13MutationOfResources: on pods/resize a rule may change only resources, and a warning reports dropped changes. On the Pod itself,
// rules may change any field.
func TestT13MutationOfResources(t *testing.T) {
	pod := func(label, cpu string, containers ...any) map[string]any {
		c := map[string]any{"name": "c", "resources": map[string]any{"limits": map[string]any{"cpu": cpu}}}
		return map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": label}},
			"spec":     map[string]any{"containers": append([]any{c}, containers...), "resources": map[string]any{"limits": map[string]any{"cpu": cpu}}},
		}
	}
	for _, c := range []struct {
		name  string
		after map[string]any
		sub   string
		kept  bool
	}{
		{"resources", pod("x", "2"), "resize", true},
		{"a label", pod("y", "1"), "resize", false},
		{"a label and resources", pod("y", "2"), "resize", false},
		{"a container", pod("x", "1", map[string]any{"name": "resources"}), "resize", false},
		{"a label of the Pod itself", pod("y", "1"), "", true},
		{"a label with the ephemeral containers", pod("y", "1"), "ephemeralcontainers", true},
	} {
		r := rule("r", func(*policy.Call) policy.Yield {
			return policy.Yield{Status: policy.StatusPass, Object: value.Of(c.after)}
		})
		r.Stage = policy.StageMutate
		req := request(policy.Update)
		req.Object, req.Subresource = value.Of(pod("x", "1")), c.sub
		out := Eval(context.Background(), Input{Selections: []policy.Selection{program(r)}, Request: req, Stages: policy.StageMutate})
		after, _ := out.Object.Map()
		kept := value.Equal(after, c.after)
		d := Decide(&out, MutateWording)
		if kept != c.kept || !d.Allowed || (len(d.Warnings) == 0) != c.kept {
			t.Errorf("%s: kept %v, %+v", c.name, kept, d)
		}
		if !c.kept && (!strings.Contains(d.Warnings[0], "policy p.r: its change of the Pod is dropped") || out.Results[0].Status != policy.StatusSkip) {
			t.Errorf("%s: %q %s", c.name, d.Warnings, out.Results[0].Status)
		}
	}
}
