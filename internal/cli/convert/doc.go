// Package convert is `ephor convert`: it writes classic policies as policies in CEL, and proves on resources that both decide alike.
//
// Package family/convert makes the policies. This package finds the resources of kinds, makes resources for the proof from what the
// policy and the API say (sample.go), and evaluates both policies on them (prove.go).
//
// Floor 8: imports cli/load, cli/offline, cli/terminal and the floors below.
package convert
