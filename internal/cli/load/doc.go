// Package load reads the files that users pass to the command line: policies, exceptions, definitions of kinds, values,
// and payloads.
//
//	set := load.Policies(nil, paths, stdin)             // policies that compile; refused policies with the reasons
//	exceptions := load.Exceptions(paths, stdin)
//	programs := exceptions.Join(set.Programs, time.Now())
//
// Every mistake is a diagnostic with its position. A policy with a mistake is refused, and the others are used.
//
// The package does not evaluate policies.
//
// Floor 8: imports cli/terminal and the floors below.
package load
