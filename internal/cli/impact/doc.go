// Package impact implements the command `ephor impact`: it shows what policies would have done to recorded requests and would
// do to existing objects.
//
//	ephor impact policies/ --requests requests.jsonl --current in-force/
//
// It reads the inputs and prints the report; package internal/impact evaluates and counts.
//
// Floor 8: imports internal/impact, cli/load, cli/offline, cli/remote and cli/terminal.
package impact
