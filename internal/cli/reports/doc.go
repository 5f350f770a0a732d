// Package reports has the commands that read policy reports: `ephor report` and `ephor rollout`.
//
//	root.AddCommand(reports.NewReport(), reports.NewRollout())
//
// Both read the reports of a cluster, or of files, one by one. report sums them up (package compliance) as a table, JSON, CSV or HTML.
// rollout says what Enforce would deny, where, and whose it is (package rollout).
//
// Texts in reports are written by other users: each format escapes them.
//
// Floor 8: imports cli/impact, cli/remote, cli/terminal and the floors below.
package reports
