// Package reports implements the commands that read policy reports: `ephor report` and `ephor rollout`.
//
//	root.AddCommand(reports.NewReport(), reports.NewRollout())
//
// Both read the reports of a cluster, or of files, one by one. report summarizes them (package compliance) as a table, JSON, CSV or
// HTML. rollout shows what Enforce would deny, where, and who owns it (package rollout).
//
// Other users write the texts in reports, so every output format escapes them.
//
// Floor 8: imports cli/impact, cli/remote, cli/terminal and the floors below.
package reports
