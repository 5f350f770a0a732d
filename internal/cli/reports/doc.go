// Package reports implements the commands that read policy reports: `ephor report`, `ephor rollout` and `ephor exceptions`.
//
//	root.AddCommand(reports.NewReport(), reports.NewRollout(), reports.NewExceptions())
//
// They read the reports of a cluster, or of files, one by one. report summarizes them (package compliance) as a table, JSON, CSV or
// HTML. rollout shows what Enforce would deny, where, and who owns it (package rollout). exceptions shows what exceptions exempt, when they end, and
// which of them no object needs.
//
// Other users write the texts in reports, so every output format escapes them.
//
// Floor 8: imports cli/impact, cli/remote, cli/terminal and the floors below.
package reports
