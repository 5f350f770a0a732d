package findings

import (
	"testing"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/lint"
)

// Every result refers to a rule that the log describes, at the correct index. A result with an unknown line has no region.
func TestSARIF(t *testing.T) {
	var findings []lint.Finding
	for _, c := range lint.Checks() {
		findings = append(findings, lint.Finding{Check: c, Diagnostic: diag.Diagnostic{Severity: diag.Warning, Summary: "s", Pos: diag.Position{File: "f"}}})
	}
	for _, c := range diag.Codes() {
		findings = append(findings, lint.Found(diag.Diagnostic{Code: c.Code}))
	}
	run := sarifLog(findings, "v1")["runs"].([]any)[0].(map[string]any)
	rules := run["tool"].(map[string]any)["driver"].(map[string]any)["rules"].([]any)
	results := run["results"].([]any)
	if len(results) != len(findings) || len(rules) != len(findings) {
		t.Fatalf("%d results, %d rules", len(results), len(rules))
	}
	for _, r := range results {
		result := r.(map[string]any)
		if rules[result["ruleIndex"].(int64)].(map[string]any)["id"] != result["ruleId"] {
			t.Errorf("%v", result)
		}
		place := result["locations"].([]any)[0].(map[string]any)["physicalLocation"].(map[string]any)
		if _, has := place["region"]; has {
			t.Error("a region without a line")
		}
	}
}
