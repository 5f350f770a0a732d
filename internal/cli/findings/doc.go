// Package findings implements the command `ephor lint`: it prints certain and likely mistakes in policies as text, JSON or SARIF.
//
//	root.AddCommand(findings.New(version))
//
// Package lint finds the mistakes; this package reads the files and prints the findings.
//
// Floor 8: imports cli/load, cli/terminal and the floors below.
package findings
