// Package explain implements the command `ephor explain`: it explains why a rule passes, fails or does not apply, and what would make
// it pass.
//
//	root.AddCommand(explain.New(nil))
//
// It evaluates like apply, one rule at a time, and records the clauses, variables, conditions and patterns in a trace (package trace).
// facts.go collects them; advice.go, cel.go and images.go turn them into sentences; text.go prints them.
//
// Floor 8: imports cli/load, cli/offline, cli/terminal and the floors below.
package explain
