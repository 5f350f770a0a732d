package findings

import (
	"ephor.invalid/ephor/internal/cli/sarif"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/lint"
)

// sarifLog returns the findings as a SARIF log. version is the version of this program.
func sarifLog(findings []lint.Finding, version string) map[string]any {
	var rules []sarif.Rule
	for _, c := range lint.Checks() {
		rules = append(rules, sarif.Rule{ID: c.Name, Doc: c.Doc, Level: level(c)})
	}
	for _, c := range diag.Codes() {
		rules = append(rules, sarif.Rule{ID: string(c.Code), Doc: c.Doc, Level: "error"})
	}
	var results []sarif.Result
	for _, f := range findings {
		results = append(results, sarif.Finding(f.Code(), f.Diagnostic))
	}
	return sarif.Log(version, rules, results)
}

func level(c *lint.Check) string {
	if c == lint.Mistake {
		return "error"
	}
	return "warning"
}
