// Package terminal contains the user interface that the commands share: flag types, usage lines, exit codes, tables, progress, and
// texts that are safe to show on a terminal.
//
//	f.VarP(terminal.Paths(&o.resources), "resource", "r", "…")    // repeated, or separated by commas
//	p := terminal.NewProgress(cmd.ErrOrStderr(), "resources evaluated")
//	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
//	return terminal.End(cmd, code)                                // the exit code, without a further message
//
// Other users write the names and messages in objects, so Plain, Legible and LegibleWriter replace characters that control a terminal.
//
// The package does not depend on policies or commands.
//
// Floor 8: imports diag and strict.
package terminal
