// Package manifests implements the commands that write and correct files: `ephor create` and `ephor fix`.
//
//	root.AddCommand(manifests.NewCreate(), manifests.NewFix())
//
// create prints objects and test files in the formats that the other commands read. fix rewrites deprecated fields of policies and tests
// in place, and preserves comments and order.
//
// The package does not evaluate policies.
//
// Floor 8: imports cli/terminal and the floors below.
package manifests
