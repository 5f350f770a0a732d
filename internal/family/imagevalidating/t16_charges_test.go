package imagevalidating

import (
	"strings"
	"testing"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/imageref"
)

// TestT16Globs: a comparison with matchImageReferences is charged by the pattern times the text.
func TestT16Globs(t *testing.T) {
	a := &compilecost.Allowance{}
	c := celrule.New(env.Declarations{Kind: env.ImageValidating}, a)
	r := compileReferences(c, []policiesv1beta1.MatchImageReference{{Glob: strings.Repeat("*a", 100) + "b"}}, "spec.matchImageReferences", a)
	if len(c.Diags) > 0 {
		t.Fatal(c.Diags)
	}
	m := budget.New(t.Context(), 1<<40, 1<<40)
	_, _ = r.selects(t.Context(), m, imageref.Defaults{}, strings.Repeat("a", 10_000)) // it is no image
	if steps, _ := m.Used(); steps < 10_000*200/4 {
		t.Errorf("%d steps for a pattern of 200 bytes and a text of 10,000", steps)
	}
}
