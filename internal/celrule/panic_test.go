package celrule

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/typecheck"
)

// An expression at which the compiler panics is a mistake of the policy with its place.
func TestPanicIsAMistake(t *testing.T) {
	c := &Compiler{} // without an environment, compiling panics
	c.Expression("true", "spec.validations[0].expression", typecheck.Bool)
	if errs := c.Diags.Errors(); len(errs) != 1 || errs[0].Path != "spec.validations[0].expression" || !strings.Contains(errs[0].Summary, "defect of Ephor") {
		t.Errorf("%v", c.Diags)
	}
}
