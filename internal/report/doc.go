// Package report turns Outcomes into report entries and reports. It is pure: no clock, no cluster, no files.
//
//	entries := report.Entries(outcome, report.Options{})
//	for _, r := range report.Merge(entries) {
//		r.WriteYAML(os.Stdout, seconds)
//	}
//
// It does not decide anything (engine.Decide does), does not word messages (the rules do), and does not store reports.
//
// Floor 6: imports policy and floor 0.
package report
