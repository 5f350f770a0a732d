// Package manifests has the commands that write and correct files: `ephor create` and `ephor fix`.
//
//	root.AddCommand(manifests.NewCreate(), manifests.NewFix())
//
// create prints objects and test files in the forms that the other commands read. fix rewrites deprecated fields of policies and tests in
// place, and keeps comments and order.
//
// The package evaluates nothing.
//
// Floor 8: imports cli/terminal and the floors below.
package manifests
