// Package oci implements the commands `ephor oci push` and `ephor oci pull`, which store policies in registries and
// read them from there.
//
//	root.AddCommand(oci.New())
//
// push accepts only policies without mistakes. pull writes each policy to a file named after the policy.
//
// Floor 8: imports cli/load, cli/terminal and the floors below.
package oci
