// Package testrun has the command `ephor test`: it evaluates policies as test files say, and compares the results with the expected ones.
//
//	root.AddCommand(testrun.New(nil))
//
// A Test is one document of a kyverno-test.yaml. Tests run in all processors and are printed in their order; one that cannot be run does
// not keep the others from running.
//
// The rules are evaluated by cli/offline.
//
// Floor 8: imports cli/load, cli/offline, cli/remote, cli/terminal and the floors below.
package testrun
