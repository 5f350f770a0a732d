// Package report turns Outcomes into report entries and reports. It is pure: no clock, no cluster, no files.
//
//	entries := report.Entries(outcome, report.Options{})
//	for _, r := range report.Merge(entries) {
//		r.WriteYAML(os.Stdout, seconds)
//	}
//
// It makes no decisions (engine.Decide does), formats no messages (the rules do), and stores no reports.
//
// Floor 6: imports policy and floor 0.
package report
