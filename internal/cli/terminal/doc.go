// Package terminal is what the commands share towards the user: flag types, usage lines, exit codes, tables, progress, and text that a
// terminal may show.
//
//	f.VarP(terminal.Paths(&o.resources), "resource", "r", "…")    // repeated, or separated by commas
//	p := terminal.NewProgress(cmd.ErrOrStderr(), "resources evaluated")
//	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
//	return terminal.End(cmd, code)                                // the exit code, without another word
//
// Names and messages in objects are written by other users: Plain, Legible and LegibleWriter replace characters that a terminal
// acts on.
//
// The package knows no policy and no command.
//
// Floor 8: imports diag and strict.
package terminal
