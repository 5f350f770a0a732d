// Package convert implements the command `ephor convert`: it converts classic policies to policies in CEL, and checks on sample
// resources that both make the same decisions.
//
// Package internal/convert converts the policies. This package finds the resources of kinds, generates sample resources from the
// policy and the API schemas (sample.go), and evaluates both policies on them (prove.go) and on recorded requests (recorded.go). It writes the policies
// for the program that is to run them (output.go), and converts tests along (tests.go).
//
// Floor 8: imports cli/impact, cli/load, cli/offline, cli/terminal, cli/testrun and the floors below.
package convert
