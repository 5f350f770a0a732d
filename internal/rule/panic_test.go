package rule

import (
	"strings"
	"testing"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

// A rule at which a compiler panics errs for what it matches; it is not missing.
func TestPanicIsAMistake(t *testing.T) {
	defer func(compile func(*compiler, *kyvernov1.Rule) handler) { validateDeny.compile = compile }(validateDeny.compile)
	validateDeny.compile = func(*compiler, *kyvernov1.Rule) handler { panic("out of range") }
	r, diags := Compile(&kyvernov1.Rule{Name: "r", Validation: &kyvernov1.Validation{Deny: &kyvernov1.Deny{}}}, Input{Path: "spec.rules[0]"})
	if errs := diags.Errors(); len(errs) != 1 || errs[0].Path != "spec.rules[0]" || !strings.Contains(errs[0].Summary, "out of range") {
		t.Errorf("%v", diags)
	}
	if y := r.Eval(nil); y.Status != policy.StatusError || !strings.Contains(y.Message, "out of range") {
		t.Errorf("%+v", y)
	}
}
