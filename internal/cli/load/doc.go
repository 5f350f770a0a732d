// Package load reads what users give the command line: policies, exceptions, definitions of kinds, values, and payloads.
//
//	set := load.Policies(nil, paths, stdin)             // what compiles; what was refused, and why
//	exceptions := load.Exceptions(paths, stdin)
//	programs := exceptions.Join(set.Programs)
//
// Every mistake is a diagnostic with its position. A policy with a mistake is refused, and the others are used.
//
// The package evaluates nothing.
//
// Floor 8: imports cli/terminal and the floors below.
package load
