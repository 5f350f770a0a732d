// Package findings has the command `ephor lint`: it prints the mistakes in policies, certain and likely ones, as text, JSON or SARIF.
//
//	root.AddCommand(findings.New(version))
//
// Package lint finds the mistakes; this one reads the files and prints.
//
// Floor 8: imports cli/load, cli/terminal and the floors below.
package findings
