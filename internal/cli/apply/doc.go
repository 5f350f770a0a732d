// Package apply implements the command `ephor apply`: it evaluates policies on resources from files or a cluster, and prints the
// results.
//
//	root.AddCommand(apply.New(nil))
//
// Resources are read, evaluated and released document by document on all processors. Results are printed in the order of the input. The
// output is text, a table, a report, exceptions for the failures, or the changed and generated objects. Texts and exit codes are the
// same as in Kyverno's command line.
//
// It does not evaluate rules itself; package cli/offline does.
//
// Floor 8: imports cli/load, cli/offline, cli/remote, cli/terminal and the floors below.
package apply
