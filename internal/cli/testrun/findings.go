package testrun

import "ephor.invalid/ephor/internal/cli/sarif"

// findingOf converts a failed row to a finding in the file of its test.
func findingOf(c *testCase, r testRow) sarif.Result {
	rule := r.Policy
	if r.Rule != "" {
		rule += "/" + r.Rule
	}
	text := r.Resource + ": " + r.Reason
	if r.Message != "" {
		text += ": " + r.Message
	}
	return sarif.Result{Rule: rule, Level: "error", Text: text, Pos: c.pos("results")}
}
