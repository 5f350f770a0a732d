// Package testrun implements the command `ephor test`: it evaluates policies as test files specify, and compares the results with the
// expected ones.
//
//	root.AddCommand(testrun.New(nil))
//
// A Test is one document of a kyverno-test.yaml. Tests run on all processors, and their results are printed in order. A test that cannot
// be run does not stop the others.
//
// It does not evaluate rules itself; package cli/offline does.
//
// Floor 8: imports cli/load, cli/offline, cli/remote, cli/terminal and the floors below.
package testrun
