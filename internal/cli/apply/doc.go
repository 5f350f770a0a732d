// Package apply has the command `ephor apply`: it evaluates policies on the resources of files or of a cluster, and prints the results.
//
//	root.AddCommand(apply.New(nil))
//
// Resources are read, evaluated and dropped document by document in all processors, and results come in the order of the input.
// The output is text, a table, a report, exceptions for what fails, or the changed and generated objects. Texts and exit codes are
// those of Kyverno's command line.
//
// The rules are evaluated by cli/offline.
//
// Floor 8: imports cli/load, cli/offline, cli/remote, cli/terminal and the floors below.
package apply
