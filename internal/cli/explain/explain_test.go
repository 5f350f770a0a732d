package explain

import (
	"path/filepath"
	"testing"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world/fixed"
)

// The verdict of an explanation is the same as that of an ordinary evaluation, for every rule.
func TestExplainAgreesWithApply(t *testing.T) {
	examples := filepath.Join("..", "..", "..", "examples")
	policies, diags := loadLocated(nil, []string{filepath.Join(examples, "pod-security")}, nil, false)
	resources, moreDiags := source.Load([]string{filepath.Join(examples, "pod-security-tests")}, source.Options{Recursive: true, Numbers: source.Floats})
	diags.Add(moreDiags...)
	if diags.HasErrors() || len(policies) == 0 || len(resources) == 0 {
		t.Fatalf("%d policies, %d resources, %v", len(policies), len(resources), diags)
	}
	programs := make([]*policy.Program, len(policies))
	for i := range policies {
		programs[i] = policies[i].program
	}
	e := offline.New(programs, fixed.New(fixed.Values{}), nil)
	evaluated, silent := 0, 0
	for _, r := range resources {
		source.Normalise(r.Value)
		answers, err := e.Each(t.Context(), r.Value, "")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]policy.Result{}
		for _, a := range answers {
			for _, result := range a.Results {
				want[result.Program.Name+"/"+result.Rule.Name] = result
			}
		}
		for i, p := range programs {
			found, err := explain(t.Context(), e, policies[i], p, r.Value, "", &load.Unevaluated{})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range found {
				result, has := want[x.Policy+"/"+x.Rule]
				switch {
				case !has && (x.Verdict == verdictNoMatch || x.Verdict == verdictNoResult):
					silent++
				case !has || x.Verdict != result.Status.String() || x.Message != result.Message:
					t.Errorf("%s/%s on %s: explained as %s %q, is %s %q", x.Policy, x.Rule, x.Resource, x.Verdict, x.Message, result.Status, result.Message)
				default:
					evaluated++
				}
				if x.Verdict == "fail" && (len(x.Decided) == 0 || len(x.ToPass) == 0) {
					t.Errorf("%s/%s on %s fails, and nothing says why: %+v", x.Policy, x.Rule, x.Resource, x)
				}
			}
		}
	}
	if evaluated < 100 || silent < 100 {
		t.Errorf("only %d results and %d rules without one", evaluated, silent)
	}
}
