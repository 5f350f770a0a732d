// Package oci stores policies in registries, and reads them from there: `ephor oci push` and `ephor oci pull`.
//
//	root.AddCommand(oci.New())
//
// Only policies without mistakes are pushed. A pulled policy becomes a file named after the policy.
//
// Floor 8: imports cli/load, cli/terminal and the floors below.
package oci
